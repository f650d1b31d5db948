"""Serves moto for the tests: on a free port, with few images, and corrected where it differs from EC2 in what they look at.

usage: server.py PORT_FILE [--exit-with-stdin]

Writes the port into PORT_FILE once requests are accepted. With --exit-with-stdin the process ends when its standard
input is closed, so that it cannot outlive whoever holds the other end.
"""

import copy
import os
import sys
import threading

# moto reads these when it is imported. Its own list has 1300 images that every new account would copy.
os.environ["MOTO_AMIS_PATH"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images.json")
# As EC2 does, refuse what does not exist.
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
os.environ["MOTO_ENABLE_KEYPAIR_VALIDATION"] = "true"

from moto.ec2.models.instances import Instance
from moto.ec2.models.tags import TagBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


def look_tags_up_by_id():
    """A resource asks for its tags by its own id; moto goes through all tags of the account each time."""
    search = TagBackend.describe_tags

    def describe_tags(self, filters=None):
        ids = filters.get("resource-id") if filters and len(filters) == 1 else None
        if not ids or any(wildcard in ids[0] for wildcard in "*?") or len(ids) > 1:
            return search(self, filters)
        resource_type = EC2_PREFIX_TO_RESOURCE.get(get_prefix(ids[0]), "")
        tags = self.tags[ids[0]].items() if ids[0] in self.tags else ()
        return [
            {"resource_id": ids[0], "key": key, "value": value, "resource_type": resource_type} for key, value in tags
        ]

    TagBackend.describe_tags = describe_tags


def delete_interfaces_with_their_instance():
    """An interface that RunInstances makes goes with its instance unless the caller says otherwise; moto keeps it."""
    prepare = Instance.prep_nics

    def prep_nics(self, nic_spec, *args, **kwargs):
        prepare(self, nic_spec, *args, **kwargs)
        kept = {
            int(spec["DeviceIndex"])
            for spec in nic_spec
            if "NetworkInterfaceId" in spec or spec.get("DeleteOnTermination") in (False, "false")
        }
        for index, interface in self.nics.items():
            interface.delete_on_termination = int(index) not in kept

    terminate = Instance.terminate

    def terminate_once(self):
        # A second termination changes nothing; moto would look for the interfaces it has deleted.
        return copy.copy(self._state) if self._state.name == "terminated" else terminate(self)

    Instance.prep_nics = prep_nics
    Instance.terminate = terminate_once


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
    look_tags_up_by_id()
    delete_interfaces_with_their_instance()
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    with open(port_file + ".new", "w", encoding="utf-8") as file:
        file.write(str(server.server_port))
    os.replace(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
