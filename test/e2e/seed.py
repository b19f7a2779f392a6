"""Users, the catalogue, flavors, keypairs, networks and images for the tests.

seed.py CLOUD.json identity|resources, run with the clients' own Python, once:
what it leaves is kept (see cloud.py).
"""
import json
import sys

import openstack

about = json.load(open(sys.argv[1]))
PORTS = about['ports']


def connect(user, project):
    return openstack.connect(
        auth_url=about['auth_url'], username=user, password=about['password'], project_name=project,
        user_domain_name='Default', project_domain_name='Default', region_name=about['region'],
        identity_api_version='3')


def identity():
    """Two projects with a member and a reader; service users; the catalogue."""
    i = connect('admin', 'admin').identity
    roles = {r.name: r for r in i.roles()}
    for name in ('service', 'creator'):
        roles.setdefault(name, None)
        roles[name] = roles[name] or i.create_role(name=name)
    projects = {name: i.find_project(name) or i.create_project(name=name, domain_id='default')
                for name in ('admin', 'service', 'demo', 'other')}
    grants = {
        'demo': ('demo', ['member']), 'demo2': ('demo', ['member']), 'reader': ('demo', ['reader']),
        'other': ('other', ['member']), 'nobody': ('demo', ['creator']),
        **{s: ('service', ['admin', 'service']) for s in ('carafe', 'barbican', 'glance', 'neutron', 'nova')},
    }
    for name, (project, names) in grants.items():
        user = i.create_user(name=name, password=about['password'], domain_id='default')
        for role in names:
            i.assign_project_role_to_user(projects[project], user, roles[role])
    for name, kind, path in (('barbican', 'key-manager', ''), ('glance', 'image', ''), ('nova', 'compute', '/v2.1'),
                             ('neutron', 'network', ''), ('container-infra', 'container-infra', '/v1')):
        service = i.create_service(name=name, type=kind)
        for interface in ('public', 'internal', 'admin'):
            i.create_endpoint(service_id=service.id, interface=interface, region_id=about['region'],
                              url=f'http://127.0.0.1:{PORTS[name]}{path}')


KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqbpBQQmHkzPKdEPMtFTAyYtQi4Zvx8Ts3rq7+q6oFt carafe-e2e'


def resources():
    """What templates and clusters name."""
    admin, demo, other = connect('admin', 'admin'), connect('demo', 'demo'), connect('other', 'other')
    for name, ram, disk in (('m1.small', 2048, 20), ('m1.medium', 4096, 40), ('m1.nodisk', 2048, 0)):
        admin.compute.create_flavor(name=name, ram=ram, vcpus=2, disk=disk)
    admin.compute.create_flavor(name='m1.private', ram=2048, vcpus=2, disk=20, is_public=False)
    for c in (admin, demo, other, connect('demo2', 'demo')):
        c.compute.create_keypair(name='testkey', public_key=KEY)

    def network(c, name, cidr, subnet=None, **more):
        n = c.network.create_network(name=name, **more)
        c.network.create_subnet(network_id=n.id, name=subnet or name + '-subnet', ip_version=4, cidr=cidr)

    network(admin, 'public', '172.24.4.0/24', is_router_external=True)
    network(demo, 'private', '10.0.0.0/24')
    network(other, 'other-private', '10.0.1.0/24')
    for cidr in ('10.0.2.0/24', '10.0.3.0/24'):
        network(demo, 'dup-net', cidr, subnet='dup-subnet')
    for cidr in ('172.24.5.0/24', '172.24.6.0/24'):
        network(admin, 'dup-public', cidr, is_router_external=True)

    def image(name, **properties):
        return admin.image.create_image(name=name, data=b'e2e', disk_format='raw', container_format='bare',
                                        allow_duplicates=True, **{'visibility': 'public', **properties})

    image('ubuntu-k8s', os_distro='ubuntu', kube_version='v1.34.1')
    image('ubuntu-k8s-next', os_distro='ubuntu', kube_version='v1.35.0')
    image('flatcar-k8s', os_distro='flatcar', kube_version='v1.34.1')
    image('fedora', os_distro='fedora-coreos')
    image('no-distro')
    image('with-driver', os_distro='ubuntu', magnum_driver='simulated')
    image('with-bad-driver', os_distro='ubuntu', magnum_driver='k8s_nobody')
    admin.image.update_image(image('hidden-image', os_distro='ubuntu'), is_hidden=True)
    image('admins-image', os_distro='ubuntu', visibility='private')
    for _ in range(2):
        image('dup-image', os_distro='ubuntu')


{'identity': identity, 'resources': resources}[sys.argv[2]]()
