"""Serves moto for the tests: on a free port, with few images, and corrected where it differs from EC2 in what they look at.

usage: server.py PORT_FILE [--exit-with-stdin]

Writes the port into PORT_FILE once requests are accepted. With --exit-with-stdin the process ends when its standard
input is closed, so that it cannot outlive whoever holds the other end.
"""

import os
import sys
import threading

# moto reads these when it is imported. Its own list has 1300 images that every new account would copy.
os.environ["MOTO_AMIS_PATH"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images.json")
# As EC2 does, refuse what does not exist.
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
os.environ["MOTO_ENABLE_KEYPAIR_VALIDATION"] = "true"

# Nothing is written beside the sources.
sys.dont_write_bytecode = True

import corrections
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


def exit_with_stdin():
    def wait():
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def main():
    port_file = sys.argv[1]
    if "--exit-with-stdin" in sys.argv[2:]:
        exit_with_stdin()
    corrections.apply()
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    with open(port_file + ".new", "w", encoding="utf-8") as file:
        file.write(str(server.server_port))
    os.replace(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
