#!/usr/bin/env python3
"""A Magnum on this machine, in an OpenStack that the tests have too.

    magnum.py up STATE          starts all; STATE/peer.json says where
    magnum.py down STATE        stops what `up STATE` has started
    magnum.py start STATE NAME  starts one of Magnum's processes
    magnum.py stop STATE NAME   stops it

The OpenStack (Keystone, Nova, Neutron, Glance) is ../../e2e/cloud.py's. Magnum
is the release of requirements-magnum.txt there, its API under uWSGI with two
workers, with one conductor. MariaDB, RabbitMQ and memcached are Debian's
packages: they are installed if this runs as root, and asked for otherwise.
Everything listens on 127.0.0.1, on ports that were free; data are in STATE and
thrown away with it. A file in STATE/run holds the pid of each process.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / 'e2e'))
import cloud  # noqa: E402

VENV = cloud.CACHE / 'magnum'
# package: one of its programs
PACKAGES = {'mariadb-server': 'mariadbd', 'rabbitmq-server': 'rabbitmq-server', 'memcached': 'memcached'}
PATH = os.environ.get('PATH', '') + ':/usr/sbin:/sbin'  # where Debian keeps servers
OPENSTACK = ('keystone', 'glance', 'neutron', 'nova')
PEERS = ('memcached', 'mariadb', 'epmd', 'rabbitmq', 'magnum-api', 'magnum-conductor')
# without Debian's wrapper on PATH, which changes to another user
RABBITMQ = '/usr/lib/rabbitmq/bin/rabbitmq-server'


# -- what is kept ---------------------------------------------------------------

def install_servers():
    missing = [package for package, program in PACKAGES.items() if not shutil.which(program, path=PATH)]
    if not missing:
        return
    if os.getuid() != 0 or not shutil.which('apt-get'):
        sys.exit(f'magnum.py: these are needed: apt-get install {" ".join(missing)}')
    cloud.say(f'apt-get install {" ".join(missing)}')
    # the packages must not start servers of their own
    policy = pathlib.Path('/usr/sbin/policy-rc.d')
    ours = not policy.exists()
    if ours:
        policy.write_text('#!/bin/sh\nexit 101\n')
        policy.chmod(0o755)
    try:
        environment = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}
        for command in (['update'], ['install', '--yes', '--no-install-recommends', *missing]):
            done = subprocess.run(['apt-get', '--quiet', '--quiet', *command], env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f'{done.stdout}\nmagnum.py: apt-get install {" ".join(missing)} has failed')
    finally:
        if ours:
            policy.unlink()


def install():
    install_servers()
    cloud.install()
    with open(cloud.CACHE / '.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cloud.install_packages('magnum')
        sources = sorted((HERE / 'driver').glob('*.*'))
        wanted = hashlib.sha256(b''.join(f.read_bytes() for f in sources)).hexdigest()
        mark = VENV / '.driver'
        if mark.exists() and mark.read_text() == wanted:
            return
        with tempfile.TemporaryDirectory() as copy:  # pip builds where the source is
            for f in sources:
                shutil.copy(f, copy)
            subprocess.run([VENV / 'bin' / 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps',
                            '--no-build-isolation', '--force-reinstall', copy], check=True)
        mark.write_text(wanted)


# -- one running Magnum -----------------------------------------------------------

class Peer(cloud.Cloud):
    def __init__(self, state):
        self.file = pathlib.Path(state).resolve() / 'peer.json'
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self.file.exists():
            self.peer = json.loads(self.file.read_text())
        else:
            names = ('memcached', 'mariadb', 'epmd', 'rabbitmq', 'distribution')
            self.peer = {'ports': dict(zip(names, cloud.free_ports(len(names))))}
            self.save()
        super().__init__(state)
        self.socket = self.state / 'tmp' / 'mariadb.sock'

    def save(self):
        self.file.write_text(json.dumps(self.peer, indent=1))

    def port(self, name):
        if name == 'magnum-api':
            name = 'container-infra'
        return self.peer['ports'].get(name) or super().port(name)

    def write_peer_settings(self):
        shutil.copy(VENV / 'etc' / 'magnum' / 'api-paste.ini', self.setting('magnum-paste.ini'))
        self.setting('magnum.conf').write_text(f'''[DEFAULT]
log_file = {self.state}/log/magnum.log
state_path = {self.state}/data
host = bench
transport_url = rabbit://bench:bench@127.0.0.1:{self.port('rabbitmq')}/
[api]
api_paste_config = {self.setting('magnum-paste.ini')}
[database]
connection = mysql+pymysql://root@127.0.0.1:{self.port('mariadb')}/magnum
# not all that its API takes come back soon: with the 55 of the default it stands still after some thousand requests
max_overflow = 1000
{self.authtoken('carafe')}memcached_servers = 127.0.0.1:{self.port('memcached')}
[keystone_auth]
{self.login('carafe')}[certificates]
cert_manager_type = x509keypair
[quotas]
max_clusters_per_project = 10000000
[conductor]
workers = 1
[oslo_messaging_notifications]
driver = noop
[oslo_concurrency]
lock_path = {self.state}/tmp
''' + ''.join(f'[{service}_client]\nregion_name = {cloud.REGION}\n'
              for service in ('magnum', 'glance', 'nova', 'neutron', 'barbican', 'cinder', 'octavia')))
        self.setting('rabbitmq.conf').write_text(
            f'listeners.tcp.1 = 127.0.0.1:{self.port("rabbitmq")}\n'
            'default_user = bench\ndefault_pass = bench\nloopback_users = none\n')
        self.setting('enabled_plugins').write_text('[].\n')

    def erlang(self):
        return {
            'HOME': str(self.state / 'tmp'), 'ERL_EPMD_PORT': str(self.port('epmd')), 'ERL_EPMD_ADDRESS': '127.0.0.1',
            'RABBITMQ_NODENAME': 'bench@localhost', 'RABBITMQ_DIST_PORT': str(self.port('distribution')),
            'ERL_AFLAGS': '-kernel inet_dist_use_interface {127,0,0,1}',
            'RABBITMQ_CONFIG_FILE': str(self.setting('rabbitmq.conf')),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(self.setting('enabled_plugins')),
            'RABBITMQ_MNESIA_BASE': str(self.state / 'data' / 'rabbitmq'), 'RABBITMQ_LOG_BASE': str(self.state / 'log'),
        }

    def command(self, name):
        """How a process is started, and what it needs in its environment."""
        if name == 'memcached':
            return ['memcached', '-u', 'nobody', '-l', '127.0.0.1', '-p', str(self.port(name)), '-m', '64'], {}
        if name == 'mariadb':
            return ['mariadbd', '--no-defaults', *self.as_root(), f'--datadir={self.state}/data/mariadb',
                    '--bind-address=127.0.0.1', f'--port={self.port(name)}', f'--socket={self.socket}',
                    '--max-connections=2200', '--character-set-server=utf8mb3',
                    '--collation-server=utf8mb3_general_ci'], {}
        if name == 'epmd':
            return [shutil.which('epmd', path=PATH) or next(map(str, pathlib.Path('/usr/lib/erlang').glob('erts-*/bin/epmd')))], self.erlang()
        if name == 'rabbitmq':
            return [RABBITMQ], self.erlang()
        if name == 'magnum-conductor':
            return [str(VENV / 'bin' / 'magnum-conductor'), '--config-file', str(self.setting('magnum.conf'))], {}
        # Each answer ends its connection: a worker that kept one would serve no other client.
        return [str(VENV / 'bin' / 'uwsgi'), '--http-socket', f'127.0.0.1:{self.port(name)}',
                '--module', 'magnum.wsgi.api:application', '--pyargv', f'--config-file {self.setting("magnum.conf")}',
                '--master', '--processes', '2', '--threads', '1', '--enable-threads', '--lazy-apps', '--need-app',
                '--die-on-term', '--thunder-lock', '--buffer-size', '65535', '--post-buffering', '65536',
                '--socket-timeout', '120', '--disable-logging', '--add-header', 'Connection: close'], {}

    @staticmethod
    def as_root():
        return ['--user=root'] if os.getuid() == 0 else []  # which MariaDB refuses unless told

    def pid(self, name):
        if name not in PEERS:
            return super().pid(name)
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.state / 'run' / name).read_text())
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # a dead child would still count
            os.kill(pid, 0)
            # not by its command line, as others of these: some write over theirs
            return pid if self.state in pathlib.Path(f'/proc/{pid}/cwd').readlink().parents else None
        return None

    def start(self, name):
        if name not in PEERS or self.pid(name):
            return super().start(name)
        command, more = self.command(name)
        with open(self.state / 'log' / f'{name}.out', 'a') as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                       cwd=self.state / 'etc', env={**self.environment(), 'PATH': PATH, **more})
        (self.state / 'run' / name).write_text(str(process.pid))

    def stop(self, name):
        """A peer is stopped with the processes that it has started."""
        if name not in PEERS:
            return super().stop(name)
        pid = self.pid(name)
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
            for _ in range(200):
                self.pid(name)
                os.killpg(pid, 0)
                time.sleep(0.05)
            os.killpg(pid, signal.SIGKILL)

    def stop_all(self):
        for name in reversed(PEERS):
            self.stop(name)
        super().stop_all()

    def wait_port(self, name, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.pid(name):
            with contextlib.suppress(OSError):
                socket.create_connection(('127.0.0.1', self.port(name)), timeout=5).close()
                return
            time.sleep(0.1)
        print((self.state / 'log' / f'{name}.out').read_text()[-2000:], file=sys.stderr)
        sys.exit(f'magnum.py: {name} did not come up')

    def sql(self, text, *arguments):
        return subprocess.run(['mariadb', '--no-defaults', '-uroot', f'--socket={self.socket}', '--batch', '--skip-column-names',
                               *arguments], input=text, text=True, check=True, capture_output=True).stdout.strip()

    def up(self):
        self.write_peer_settings()
        subprocess.run(['mariadb-install-db', '--no-defaults', *self.as_root(), f'--datadir={self.state}/data/mariadb',
                        '--skip-test-db', '--auth-root-authentication-method=normal'],
                       check=True, capture_output=True, env={**os.environ, 'PATH': PATH})
        for name in ('memcached', 'mariadb', 'epmd'):
            self.start(name)
        self.wait_port('epmd')
        self.start('rabbitmq')
        self.start_all(OPENSTACK)
        self.wait_port('mariadb')
        self.sql('create database magnum')
        cloud.say('schema of Magnum')
        schema = subprocess.run([VENV / 'bin' / 'magnum-db-manage', '--config-file', self.setting('magnum.conf'), 'upgrade'],
                                env=self.environment(), capture_output=True, text=True)
        if schema.returncode:
            sys.exit(f'{schema.stderr}\nmagnum.py: magnum-db-manage upgrade has failed')
        self.wait_port('rabbitmq')
        self.start('magnum-conductor')
        self.start('magnum-api')
        self.wait('magnum-api')
        seeded = subprocess.run([cloud.CACHE / 'client' / 'bin' / 'python', HERE / 'seed.py', self.state],
                                check=True, stdout=subprocess.PIPE, env=self.environment())
        self.peer.update({
            'address': f'127.0.0.1:{self.port("magnum-api")}', 'database_socket': str(self.socket),
            'projects': json.loads(seeded.stdout), 'versions': self.versions(),
            'openstack': [str(self.state / 'run' / name) for name in OPENSTACK],
        })
        self.save()

    def versions(self):
        """What a reader must know of what was measured."""
        def package(name):
            text = subprocess.run(['dpkg-query', '--show', '--showformat=${Version}', name], capture_output=True, text=True).stdout
            return text.split(':')[-1].split('-')[0].split('+')[0] or 'of unknown version'
        python = subprocess.run([VENV / 'bin' / 'python', '-c', 'import platform; print(platform.python_version())'],
                                capture_output=True, text=True, check=True).stdout.strip()
        requirements = dict(line.split('==') for line in (cloud.HERE / 'requirements-magnum.txt').read_text().split() if '==' in line)
        return {'magnum': requirements['magnum'], 'uwsgi': requirements['pyuwsgi'], 'python': python,
                'mariadb': self.sql('select version()').split('-')[0], 'rabbitmq': package('rabbitmq-server'),
                'memcached': package('memcached')}


def main():
    command, *rest = sys.argv[1:] or ['help']
    if command == 'up' and len(rest) == 1:
        install()
        peer = Peer(rest[0])
        peer.adopt()
        try:
            peer.up()
        except BaseException:
            peer.stop_all()
            raise
        cloud.say('up')
    elif command == 'down' and len(rest) == 1:
        Peer(rest[0]).stop_all()
    elif command in ('start', 'stop') and len(rest) == 2 and rest[1] in PEERS:
        getattr(Peer(rest[0]), command)(rest[1])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
