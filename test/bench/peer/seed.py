"""What the measurements need in Keystone: two projects for lists, beside those
that the tests have, and a token of each project for an hour or more.

seed.py STATE, run with the clients' own Python; prints the projects as JSON.
"""
import json
import pathlib
import sys

import openstack

about = json.loads((pathlib.Path(sys.argv[1]) / 'cloud.json').read_text())


def connect(user, project):
    return openstack.connect(
        auth_url=about['auth_url'], username=user, password=about['password'], project_name=project,
        user_domain_name='Default', project_domain_name='Default', region_name=about['region'],
        identity_api_version='3')


identity = connect('admin', 'admin').identity
member = identity.find_role('member')
for name in ('p10', 'p1000'):
    project = identity.create_project(name=name, domain_id='default')
    user = identity.create_user(name=name, password=about['password'], domain_id='default')
    identity.assign_project_role_to_user(project, user, member)
print(json.dumps({name: {'id': c.current_project_id, 'token': c.auth_token}
                  for name in ('p10', 'p1000', 'demo') for c in [connect(name, name)]}))
