"""Serves moto for the tests: on a free port, with few images, and corrected where it differs from EC2 in what they look at.

usage: server.py PORT_FILE

Writes the port into PORT_FILE once requests are accepted.
"""

import os
import sys

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


def main():
    port_file = sys.argv[1]
    corrections.apply()
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    with open(port_file + ".new", "w", encoding="utf-8") as file:
        file.write(str(server.server_port))
    os.replace(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
