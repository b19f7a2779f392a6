"""Serves one OpenStack service on a port of this machine.

serve.py MODULE PORT STATE, run with the services' own Python. STATE is only
there so that the process can be told from others by its command line.
"""
import importlib
import sys

import waitress

module, port = sys.argv[1], int(sys.argv[2])
del sys.argv[1:]  # the services read the command line for options of their own

if module == 'barbican':
    # barbican.wsgi.api has the path of a file under /etc in its source
    import os

    from paste import deploy
    application = deploy.loadapp('config:' + os.environ['BARBICAN_PASTE'])
else:
    application = importlib.import_module(module).application

# one thread: SQLite refuses a transaction that another has overtaken
waitress.serve(application, host='127.0.0.1', port=port, threads=1, ident='', channel_timeout=300)
