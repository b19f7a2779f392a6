"""A Magnum driver that builds nothing: what it is told to create is there at
the next look. Magnum has no driver of its own, and without one it refuses every
template. It can do no more than create, which is all that is measured."""
from magnum.drivers.common import driver
from magnum.objects import fields

COMPLETE = fields.ClusterStatus.CREATE_COMPLETE


def refuse(*_, **__):
    raise NotImplementedError('this driver can only create')


class Driver(driver.Driver):
    provides = [{'server_type': 'vm', 'os': 'ubuntu', 'coe': 'kubernetes'}]

    def create_cluster(self, context, cluster, cluster_create_timeout):
        cluster.stack_id = f'{cluster.name}-{cluster.uuid}'

    def update_cluster_status(self, context, cluster, use_admin_ctx=False):
        if not cluster.stack_id:
            return  # the conductor looks at rows for which it has not called create_cluster yet
        for group in cluster.nodegroups:
            group.status = COMPLETE
            group.save()
        cluster.status = COMPLETE
        cluster.api_address = 'https://172.24.4.3:6443'
        cluster.save()

    update_cluster = resize_cluster = upgrade_cluster = delete_cluster = refuse
    create_nodegroup = update_nodegroup = delete_nodegroup = refuse
    create_federation = update_federation = delete_federation = refuse
