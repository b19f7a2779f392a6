"""Runs the real openstack client for the tests, many times in one process.

Each line on standard input is {"env": {…}, "dir": "…", "line": "coe cluster list"};
each line on standard output {"code": 0, "out": "…", "err": "…"}. The client takes
seconds to import itself, so it is imported once and each command is a fork.
"""
import importlib
import json
import os
import pkgutil
import shlex
import sys
import tempfile

sys.argv = ['openstack']  # its help and errors name the program

import magnumclient.osc.v1
import openstackclient.shell

for m in pkgutil.iter_modules(magnumclient.osc.v1.__path__, 'magnumclient.osc.v1.'):
    importlib.import_module(m.name)
for name in ('magnumclient.v1.client', 'openstack.connection', 'keystoneauth1.identity',
             'osc_lib.clientmanager', 'openstackclient.identity.client', 'cryptography.x509'):
    importlib.import_module(name)


def run(env, folder, line, out, err):
    code = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        code = openstackclient.shell.main(shlex.split(line)) or 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except BaseException as e:  # whatever it is, it is the command's
        print(repr(e), file=sys.stderr)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


for request in sys.stdin:
    request = json.loads(request)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            run(request['env'], request['dir'], request['line'], out, err)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        print(json.dumps({'code': code, 'out': out.read().decode(), 'err': err.read().decode()}), flush=True)
