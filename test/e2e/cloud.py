#!/usr/bin/env python3
"""A small real OpenStack on this machine, for tests.

    cloud.py install          the virtual environments and the seeded databases
    cloud.py up STATE         starts the services; STATE/cloud.json says where
    cloud.py down STATE       stops what `up STATE` has started
    cloud.py stop STATE NAME  stops one service (for tests of outages)
    cloud.py start STATE NAME starts it again
    cloud.py env STATE USER   prints the OS_* variables of a user

Keystone, Barbican, Glance, Neutron and Nova are the releases of
requirements-services.txt, each one process over SQLite, without a message
broker and without anything that builds servers: Nova holds flavors and
keypairs, Neutron networks as rows, Glance images of three bytes. Everything
listens on 127.0.0.1, on ports that were free.

What takes long is done once and kept under
${XDG_CACHE_HOME:-~/.cache}/carafe/openstack-VERSION: two virtual environments
and a folder of databases with users, flavors, images and networks, which each
`up` copies. Needs Python 3.11 or newer, no other package, and no root.
"""
import contextlib
import fcntl
import getpass
import grp
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
VERSION = '2026.2'
CACHE = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'carafe' / f'openstack-{VERSION}'
PASSWORD = 'e2e-password'  # of everybody; nothing here is secret
REGION = 'RegionOne'

# name: (WSGI module, path in the catalogue)
SERVICES = {
    'keystone': ('keystone.wsgi.api', '/v3'),
    'barbican': ('barbican', ''),
    'glance': ('glance.wsgi.api', ''),
    'neutron': ('neutron.wsgi.api', ''),
    'nova': ('nova.wsgi.osapi_compute', '/v2.1'),
}
# who is who: user -> project
USERS = {'admin': 'admin', 'demo': 'demo', 'demo2': 'demo', 'reader': 'demo', 'other': 'other', 'carafe': 'service'}


def say(text):
    print(time.strftime('%T'), text, file=sys.stderr, flush=True)


# -- what is kept ---------------------------------------------------------------

def python():
    """A Python that the services run on."""
    candidates = [sys.executable] + [shutil.which(f'python3.{n}') for n in (12, 13, 11)]
    candidates += sorted(map(str, pathlib.Path.home().glob('.pyenv/versions/3.1[123]*/bin/python')))
    for candidate in filter(None, candidates):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            check = 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
            subprocess.run([candidate, '-c', check], check=True, capture_output=True)
            return candidate
    sys.exit('cloud.py: no Python 3.11, 3.12 or 3.13 found')


def install_packages(name):
    requirements = HERE / f'requirements-{name}.txt'
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    mark = CACHE / name / '.installed'
    if mark.exists() and mark.read_text() == wanted:
        return
    say(f'packages of {name} (some minutes, once)')
    subprocess.run([python(), '-m', 'venv', CACHE / name], check=True)
    subprocess.run([CACHE / name / 'bin' / 'pip', 'install', '--quiet', '--disable-pip-version-check',
                    '-r', requirements], check=True)
    mark.write_text(wanted)


def seeded():
    """The folder of databases that this recipe makes; another checkout may have another."""
    recipe = hashlib.sha256(b''.join((HERE / f).read_bytes() for f in (
        'cloud.py', 'seed.py', 'requirements-services.txt'))).hexdigest()
    return CACHE / f'seeded-{recipe[:12]}'


def install():
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / '.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install_packages('services')
        install_packages('client')
        if seeded().exists():
            return
        with tempfile.TemporaryDirectory(prefix='carafe-e2e-') as state:
            cloud = Cloud(state)
            cloud.make_databases()
            try:
                cloud.start_all(['keystone'])
                cloud.seed('identity')
                cloud.start_all(['barbican', 'glance', 'neutron', 'nova'])
                cloud.seed('resources')
            finally:
                cloud.stop_all()
            fresh = CACHE / 'seeded.new'
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            for part in ('data', 'keys'):
                shutil.copytree(cloud.state / part, fresh / part)
            fresh.rename(seeded())


# -- one running cloud ------------------------------------------------------------

def free_ports(n):
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cloud:
    def __init__(self, state):
        self.state = pathlib.Path(state).resolve()
        for part in ('data', 'keys', 'etc', 'log', 'run', 'tmp'):
            (self.state / part).mkdir(parents=True, exist_ok=True)
        about = self.state / 'cloud.json'
        if about.exists():
            self.about = json.loads(about.read_text())
        else:
            names = [*SERVICES, 'container-infra']
            ports = dict(zip(names, free_ports(len(names))))
            self.about = {
                'ports': ports, 'password': PASSWORD, 'region': REGION, 'users': USERS,
                'auth_url': f'http://127.0.0.1:{ports["keystone"]}/v3',
                'container_infra_url': f'http://127.0.0.1:{ports["container-infra"]}/v1',
                'client': str(CACHE / 'client'), 'state': str(self.state),
            }
            about.write_text(json.dumps(self.about, indent=1))
        self.write_settings()

    def port(self, name):
        return self.about['ports'][name]

    def database(self, name):
        return f'sqlite:///{self.state}/data/{name}.sqlite?timeout=60'

    def setting(self, name):
        return self.state / 'etc' / name

    def login(self, user):
        return f'''auth_type = password
auth_url = {self.about['auth_url']}
username = {user}
password = {PASSWORD}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = {REGION}
'''

    def authtoken(self, user):
        return f'''[keystone_authtoken]
{self.login(user)}www_authenticate_uri = {self.about['auth_url']}
service_token_roles = service
service_token_roles_required = true
'''

    def write_settings(self):
        s, quiet = self.state, '[oslo_messaging_notifications]\ndriver = noop\n'
        common = '[DEFAULT]\nlog_file = {}/log/{}.log\ntransport_url = fake://\n'
        write = {
            'keystone.conf': f'''[DEFAULT]
log_file = {s}/log/keystone.log
[database]
connection = {self.database('keystone')}
[token]
provider = fernet
expiration = {os.environ.get('CARAFE_E2E_TOKEN_LIFE', 14400)}
[fernet_tokens]
key_repository = {s}/keys/fernet
[credential]
key_repository = {s}/keys/credential
[cache]
enabled = true
backend = oslo_cache.dict
''',
            'barbican.conf': f'''{common.format(s, 'barbican')}host_href = http://127.0.0.1:{self.port('barbican')}
db_auto_create = false
sql_connection = {self.database('barbican')}
[database]
connection = {self.database('barbican')}
{self.authtoken('barbican')}[secretstore]
enabled_secretstore_plugins = store_crypto
[crypto]
enabled_crypto_plugins = simple_crypto
[simple_crypto_plugin]
kek = 'YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY='
[queue]
enable = false
{quiet}''',
            'glance-api.conf': f'''{common.format(s, 'glance')}enabled_backends = fs:file
use_keystone_limits = false
[database]
connection = {self.database('glance')}
{self.authtoken('glance')}[paste_deploy]
flavor = keystone
[glance_store]
default_backend = fs
[fs]
filesystem_store_datadir = {s}/data/images
[os_glance_tasks_store]
filesystem_store_datadir = {s}/data/tasks
[os_glance_staging_store]
filesystem_store_datadir = {s}/data/staging
{quiet}''',
            'nova.conf': f'''{common.format(s, 'nova')}state_path = {s}/data
my_ip = 127.0.0.1
[api]
auth_strategy = keystone
[api_database]
connection = {self.database('nova_api')}
[database]
connection = {self.database('nova')}
{self.authtoken('nova')}[service_user]
{self.login('nova')}[placement]
{self.login('nova')}[oslo_concurrency]
lock_path = {s}/tmp
{quiet}''',
            'neutron.conf': f'''{common.format(s, 'neutron')}state_path = {s}/data
core_plugin = ml2
service_plugins =
auth_strategy = keystone
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
rpc_workers = 0
[database]
connection = {self.database('neutron')}
{self.authtoken('neutron')}[oslo_concurrency]
lock_path = {s}/tmp
[ml2]
type_drivers = flat,vxlan,local
tenant_network_types = vxlan
mechanism_drivers =
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[ml2_type_vxlan]
vni_ranges = 1:1000
{quiet}''',
        }
        for name, text in write.items():
            self.setting(name).write_text(text)
        packaged = CACHE / 'services' / 'etc'
        for name in ('barbican/barbican-api-paste.ini', 'glance/glance-api-paste.ini',
                     'nova/api-paste.ini', 'neutron/api-paste.ini'):
            to = self.setting('glance-api-paste.ini' if name.startswith('glance') else name.replace('/', '-'))
            shutil.copy(packaged / name, to)
        with open(self.setting('nova.conf'), 'a') as f:
            f.write(f'[wsgi]\napi_paste_config = {self.setting("nova-api-paste.ini")}\n')
        text = self.setting('neutron.conf').read_text().replace(
            '[DEFAULT]\n', f'[DEFAULT]\napi_paste_config = {self.setting("neutron-api-paste.ini")}\n', 1)
        self.setting('neutron.conf').write_text(text)
        for part in ('images', 'tasks', 'staging'):
            (s / 'data' / part).mkdir(exist_ok=True)

    def environment(self):
        etc = str(self.state / 'etc')
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith('OS_')},
            'TMPDIR': str(self.state / 'tmp'),
            'OS_KEYSTONE_CONFIG_DIR': etc, 'OS_KEYSTONE_CONFIG_FILES': 'keystone.conf',
            'OS_GLANCE_CONFIG_DIR': etc, 'OS_GLANCE_CONFIG_FILES': 'glance-api.conf',
            'OS_NOVA_CONFIG_DIR': etc, 'OS_NOVA_CONFIG_FILES': 'nova-api-paste.ini;nova.conf',
            'OS_NEUTRON_CONFIG_DIR': etc, 'OS_NEUTRON_CONFIG_FILES': 'neutron.conf',
            'BARBICAN_PASTE': str(self.setting('barbican-barbican-api-paste.ini')),
        }

    def run(self, *command):
        log = self.state / 'log' / 'install.log'
        with open(log, 'a') as out:
            done = subprocess.run([CACHE / 'services' / 'bin' / command[0], *command[1:]],
                                  stdout=out, stderr=out, env=self.environment())
        if done.returncode:
            print(''.join(log.read_text().splitlines(keepends=True)[-30:]), file=sys.stderr)
            sys.exit(f'cloud.py: {" ".join(map(str, command))} has failed')

    def make_databases(self):
        say('databases (two minutes, once)')
        keystone = ['keystone-manage', '--config-file', self.setting('keystone.conf')]
        self.run(*keystone, 'db_sync')
        for kind in ('fernet', 'credential'):
            (self.state / 'keys' / kind).mkdir(mode=0o700)
            as_me = ['--keystone-user', getpass.getuser(), '--keystone-group', grp.getgrgid(os.getgid()).gr_name]
            self.run(*keystone, f'{kind}_setup', *(as_me if os.getuid() == 0 else []))
        url = self.about['auth_url']
        self.run(*keystone, 'bootstrap', '--bootstrap-password', PASSWORD, '--bootstrap-region-id', REGION,
                 '--bootstrap-public-url', url, '--bootstrap-internal-url', url, '--bootstrap-admin-url', url)
        self.run('barbican-manage', 'db', 'upgrade', '--db-url', self.database('barbican'))
        self.run('glance-manage', '--config-file', self.setting('glance-api.conf'), 'db_sync')
        nova = ['nova-manage', '--config-file', self.setting('nova.conf')]
        self.run(*nova, 'api_db', 'sync')
        self.run(*nova, 'cell_v2', 'map_cell0', '--database_connection', self.database('nova_cell0'))
        self.run(*nova, 'db', 'sync')
        self.run(*nova, 'cell_v2', 'create_cell', '--name', 'cell1')
        # Neutron's migrations do not run on SQLite; its own tests make the
        # tables like this too.
        self.run('python', '-c', 'import sqlalchemy, sys\n'
                 'from neutron.db.migration.models import head\n'
                 'head.get_metadata().create_all(sqlalchemy.create_engine(sys.argv[1]))',
                 self.database('neutron'))
        for file in (self.state / 'data').glob('*.sqlite'):
            with contextlib.closing(sqlite3.connect(file)) as db:
                db.execute('pragma journal_mode = wal')  # readers do not wait for a writer

    def adopt(self):
        """Takes the seeded databases over, at this cloud's ports and paths."""
        for part in ('data', 'keys'):
            shutil.copytree(seeded() / part, self.state / part, dirs_exist_ok=True)
        with contextlib.closing(sqlite3.connect(self.state / 'data' / 'keystone.sqlite')) as db, db:
            for name, (_, path) in SERVICES.items():
                self.move_endpoint(db, name, f'http://127.0.0.1:{self.port(name)}{path}')
            self.move_endpoint(db, 'container-infra', self.about['container_infra_url'])
        with contextlib.closing(sqlite3.connect(self.state / 'data' / 'nova_api.sqlite')) as db, db:
            for cell, file in (('cell0', 'nova_cell0'), ('cell1', 'nova')):
                db.execute('update cell_mappings set database_connection = ? where name = ?', (self.database(file), cell))

    @staticmethod
    def move_endpoint(db, name, url):
        db.execute("update endpoint set url = ? where service_id in "
                   "(select id from service where json_extract(extra, '$.name') = ?)", (url, name))

    # -- processes

    def pid(self, name):
        """The process of a service, if it runs and is ours."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.state / 'run' / name).read_text())
            command = pathlib.Path(f'/proc/{pid}/cmdline')
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # a dead child would still count
            os.kill(pid, 0)
            text = command.read_text() if command.exists() else ''
            # empty for an instant while the program is being loaded, and where there is no /proc
            return pid if not text or str(self.state) in text else None
        return None

    def start(self, name):
        if self.pid(name):
            return
        environment = self.environment()
        if name == 'barbican':
            environment['HOME'] = str(self.state / 'etc')  # where it looks for its settings
        with open(self.state / 'log' / f'{name}.out', 'a') as out:
            process = subprocess.Popen(
                [CACHE / 'services' / 'bin' / 'python', HERE / 'serve.py', SERVICES[name][0], str(self.port(name)), self.state],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
                cwd=self.state / 'etc', start_new_session=True)
        (self.state / 'run' / name).write_text(str(process.pid))

    def wait(self, name, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.pid(name):
                break
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{self.port(name)}/', timeout=20)
                return
            except urllib.error.HTTPError:
                return  # it speaks
            except OSError:
                time.sleep(0.2)
        for kind in ('out', 'log'):
            with contextlib.suppress(OSError):
                print(*(self.state / 'log' / f'{name}.{kind}').read_text().splitlines()[-20:], sep='\n', file=sys.stderr)
        sys.exit(f'cloud.py: {name} did not come up')

    def start_all(self, names):
        for name in names:
            self.start(name)
        for name in names:
            self.wait(name)

    def stop(self, name):
        pid = self.pid(name)
        if not pid:
            return
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            if not self.pid(name):
                return
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def stop_all(self):
        for name in SERVICES:
            self.stop(name)

    def seed(self, what):
        say(f'seed {what}')
        subprocess.run([CACHE / 'client' / 'bin' / 'python', HERE / 'seed.py', self.state / 'cloud.json', what],
                       check=True, env=self.environment())


def main():
    command, *rest = sys.argv[1:] or ['help']
    if command == 'install' and not rest:
        install()
    elif command == 'up' and len(rest) == 1:
        install()
        cloud = Cloud(rest[0])
        cloud.adopt()
        try:
            cloud.start_all(list(SERVICES))
        except BaseException:
            cloud.stop_all()
            raise
        say('up')
    elif command == 'down' and len(rest) == 1:
        Cloud(rest[0]).stop_all()
    elif command in ('start', 'stop') and len(rest) == 2 and rest[1] in SERVICES:
        cloud = Cloud(rest[0])
        if command == 'stop':
            cloud.stop(rest[1])
        else:
            cloud.start_all([rest[1]])
    elif command == 'env' and len(rest) == 2 and rest[1] in USERS:
        about = Cloud(rest[0]).about
        for key, value in {
            'AUTH_URL': about['auth_url'], 'IDENTITY_API_VERSION': 3, 'USERNAME': rest[1], 'PASSWORD': PASSWORD,
            'PROJECT_NAME': USERS[rest[1]], 'USER_DOMAIN_NAME': 'Default', 'PROJECT_DOMAIN_NAME': 'Default',
            'REGION_NAME': REGION,
        }.items():
            print(f'export OS_{key}={value}')
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
