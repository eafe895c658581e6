# Runs moto's emulation of AWS on the port that is its argument. moto checks the condition
# of a write and makes the write in two steps, so requests must not run at the same time.
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

emulator = DomainDispatcherApplication(create_backend_app)
one = threading.Lock()


def app(environ, start_response):
    with one:
        return list(emulator(environ, start_response))


# As DynamoDB does, it keeps connections open: otherwise each request needs a new one.
WSGIRequestHandler.protocol_version = "HTTP/1.1"
run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
