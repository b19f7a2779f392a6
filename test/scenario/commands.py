"""Runs the commands of the transcripts in recorded/ with the real openstack
client, and prints transcripts of the same form.

  commands.py RECORDED_DIR OUT_DIR CARAFE_URL RECORDER_URL AUTH_URL PASSWORD

The recorder is the address in the catalogue: it passes the client's requests
on, and is told the name of each scenario.

The client takes seconds to import itself, so it is imported once and each
command is a fork. Between two commands it waits until no cluster is in
progress, unless the transcript shows one that is.
"""
import http.client
import importlib
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import time
import urllib.parse

recorded, out_dir, url, recorder, auth_url, password = sys.argv[1:7]
sys.argv = ['openstack']        # its help and errors name the program

import magnumclient.osc.v1
import openstackclient.shell
for m in pkgutil.iter_modules(magnumclient.osc.v1.__path__, 'magnumclient.osc.v1.'):
    importlib.import_module(m.name)
for m in ('magnumclient.v1.client', 'openstack.connection', 'keystoneauth1.identity',
          'osc_lib.clientmanager', 'openstackclient.identity.client', 'cryptography.x509',
          'keystoneauth1.loading'):
    importlib.import_module(m)

# in the order in which they were recorded: each builds on those before it
SCENARIOS = ['cluster-template-create-list-show', 'cluster-template-update', 'cluster-template-public-hidden',
             'cluster-create', 'cluster-list-show', 'cluster-config', 'ca-show-sign-rotate', 'credential-rotate',
             'cluster-update', 'cluster-resize', 'cluster-upgrade', 'nodegroups', 'quotas', 'stats-list',
             'service-list', 'cluster-create-failed', 'cluster-update-failed', 'cluster-delete', 'cluster-template-delete']
PROJECTS = {'admin': 'admin', 'demo': 'demo', 'reader': 'demo', 'other': 'other'}
TMP = os.path.join(out_dir, 'tmp')
os.makedirs(TMP, exist_ok=True)


def call(base, method, path, token=None, body=None):
    u = urllib.parse.urlsplit(base)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
    headers = {'Content-Type': 'application/json', 'OpenStack-API-Version': 'container-infra 1.14'}
    if token:
        headers['X-Auth-Token'] = token
    c.request(method, u.path.rstrip('/') + path, json.dumps(body) if body else None, headers)
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, r.headers, json.loads(data) if data else None


def login(user):
    st, headers, body = call(auth_url, 'POST', '/auth/tokens', body={'auth': {
        'identity': {'methods': ['password'], 'password': {'user': {'name': user, 'domain': {'id': 'default'}, 'password': password}}},
        'scope': {'project': {'name': PROJECTS[user], 'domain': {'id': 'default'}}}}})
    assert st == 201, (st, body)
    return headers['X-Subject-Token'], body['token']['project']['id']


admin, _ = login('admin')
_, demo_project = login('demo')


def clusters():
    return call(url, 'GET', '/v1/clusters', admin)[2]['clusters']


def settle():
    end = time.time() + 60
    while time.time() < end:
        if not any(c['status'].endswith('IN_PROGRESS') for c in clusters()):
            return
        time.sleep(0.1)
    print('clusters do not settle', file=sys.stderr)


def env_of(user):
    env = {k: v for k, v in os.environ.items() if not k.startswith('OS_')}
    env.update(OS_AUTH_URL=auth_url, OS_USERNAME=user, OS_PASSWORD=password, OS_PROJECT_NAME=PROJECTS[user],
               OS_USER_DOMAIN_NAME='Default', OS_PROJECT_DOMAIN_NAME='Default', OS_REGION_NAME='RegionOne',
               OS_IDENTITY_API_VERSION='3', COLUMNS='80', PYTHONWARNINGS='ignore')
    env.setdefault('SHELL', '/bin/bash')        # `coe cluster config` wants it
    return env


def run(user, line):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(TMP)
            os.environ.clear()
            os.environ.update(env_of(user))
            for fd, f in ((0, '/dev/null'), (1, TMP + '/stdout'), (2, TMP + '/stderr')):
                os.dup2(os.open(f, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), fd)
            code = openstackclient.shell.main(shlex.split(line)) or 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else (0 if e.code is None else 1)
        except BaseException as e:
            print(repr(e), file=sys.stderr)
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return '$ (%s) openstack %s\n%s%s[exit %d]\n' % (
        user, line, open(TMP + '/stdout').read(), open(TMP + '/stderr').read(), code)


for name in SCENARIOS:
    text = open('%s/cli-%s.txt' % (recorded, name)).read()
    steps = re.findall(r'^\$ \((\w+)\) openstack (.*)\n((?:(?!\[exit).*\n)*)\[exit', text, re.M)
    if name == 'ca-show-sign-rotate':
        subprocess.run(['openssl', 'req', '-new', '-newkey', 'rsa:2048', '-nodes', '-keyout', TMP + '/k.pem', '-out', TMP + '/c.csr',
                        '-subj', '/CN=admin/O=system:masters'], check=True, capture_output=True)
        open(TMP + '/bad.csr', 'w').write('nonsense')
    if name == 'cluster-config':
        for d in ('cfg1', 'cfg2'):
            os.makedirs(TMP + '/' + d, exist_ok=True)
    transcript = []
    call(recorder, 'PUT', '/scenario/' + name)
    for user, line, shown in steps:
        if 'IN_PROGRESS' not in shown:
            settle()
        # identifiers that the commands themselves name
        line = re.sub(r'\b[0-9a-f]{32}\b', demo_project, line)
        for u in re.findall(r'[0-9a-f]{8}-[0-9a-f-]{27}', line):
            kind, wanted = ('clustertemplates', 'k8s-full') if ' template ' in line else ('clusters', 'c1')
            have = call(url, 'GET', '/v1/' + kind, admin)[2][kind]
            if user == 'other':         # a cluster of other's
                found = [c['uuid'] for c in have if c['name'] == 'oc1'] or [o['uuid'] for o in have if o['name'] == 'c3'] or [u]
            else:
                found = [o['uuid'] for o in have if o['name'] == wanted] or [u]
            line = line.replace(u, found[0])
        transcript.append(run(user, line))
    call(recorder, 'PUT', '/scenario/')
    with open('%s/cli-%s.txt' % (out_dir, name), 'w') as f:
        f.write('\n'.join(transcript).replace(TMP, '<DIR>'))
