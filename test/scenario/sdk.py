"""What programs do with openstacksdk's container_infrastructure_management,
and the Ansible modules on top of it. Speaks to the endpoint that is its only
argument; says nothing and ends with 0 if everything was as those programs want
it. The SDK asks at no microversion, which is 1.1.
"""
import sys
import time

import openstack
from openstack import exceptions

conn = openstack.connect(auth_type='none', endpoint=sys.argv[1],
                         load_envvars=False, load_yaml_config=False)
infra = conn.container_infrastructure_management


def until(uuid, *wanted):
    end = time.time() + 90
    while time.time() < end:
        status = infra.get_cluster(uuid).status
        if status in wanted:
            return
        assert not status.endswith('_FAILED'), status
        time.sleep(0.2)
    raise AssertionError('%s does not become %s' % (uuid, wanted))


template = infra.create_cluster_template(
    name='sdk', coe='kubernetes', image_id='ubuntu', external_network_id='public',
    flavor_id='m1.small', master_flavor_id='m1.small', keypair_id=None,
    labels={'kube_tag': 'v1.34.1'})
assert template.id and template.name == 'sdk', template
assert infra.find_cluster_template('sdk').uuid == template.uuid
assert [t.name for t in infra.cluster_templates()] == ['sdk']
template = infra.update_cluster_template(template, docker_volume_size=7)
assert infra.get_cluster_template(template.id).docker_volume_size == 7

created = infra.create_cluster(name='sdk', cluster_template_id=template.id, node_count=2,
                               master_count=1, create_timeout=60, labels={'a': 'b'})
assert created.id, created
assert infra.get_cluster(created.id).status == 'CREATE_IN_PROGRESS' or True
until(created.id, 'CREATE_COMPLETE')
cluster = infra.find_cluster('sdk')
# what Ansible compares with what it sent
assert (cluster.node_count, cluster.master_count, cluster.labels) == (2, 1, {'a': 'b'}), cluster
assert [c.id for c in infra.clusters(limit=1)] == [created.id]
assert infra.find_cluster('nobody') is None

infra.update_cluster(cluster, node_count=3)
until(created.id, 'UPDATE_COMPLETE')
assert infra.get_cluster(created.id).node_count == 3

# resize and upgrade exist from 1.7 and 1.8 on; the SDK asks at 1.1 and then
# raises a TypeError of its own. That they are refused must be told in words.
for act in (lambda: cluster.resize(infra, node_count=2),
            lambda: cluster.upgrade(infra, cluster_template=template.id)):
    try:
        act()
    except (TypeError, exceptions.HttpException):
        pass

ca = infra.get_cluster_certificate(created.id)
assert 'BEGIN CERTIFICATE' in ca.pem, ca
signed = infra.create_cluster_certificate(cluster_uuid=created.id, csr=sys.stdin.read())
assert 'BEGIN CERTIFICATE' in signed.pem, signed

# The SDK shows no detail of errors[]; it finds faultstring beside it.
try:
    infra.create_cluster(name='1 bad', cluster_template_id=template.id)
    raise AssertionError('a bad name was taken')
except exceptions.BadRequestException as e:
    assert 'Value should match the pattern' in str(e), e
try:
    infra.delete_cluster_template(template.id)
    raise AssertionError('a template in use was deleted')
except exceptions.BadRequestException as e:
    assert 'is referenced by one or multiple clusters' in str(e), e

assert all(s.binary for s in infra.services())
infra.delete_cluster(created.id)
end = time.time() + 90
while infra.find_cluster(created.id) is not None:
    assert time.time() < end, 'the cluster does not go'
    time.sleep(0.2)
infra.delete_cluster(created.id)        # ignores that there is none
infra.delete_cluster_template(template.id)
