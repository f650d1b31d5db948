"""Corrects moto where it differs from EC2 in what the tests look at."""

import base64
import copy
import functools
import re
import sys
import threading
from datetime import timedelta

from moto import backends
from moto.core import responses
from moto.core.serialize import AttributePicker
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError, InvalidAssociationIdError, InvalidSecurityGroupNotFoundError
from moto.ec2.models.instances import Instance, InstanceBackend
from moto.ec2.models.internet_gateways import InternetGatewayBackend
from moto.ec2.models.nat_gateways import NatGateway, NatGatewayBackend
from moto.ec2.models.security_groups import SecurityGroupBackend, SecurityGroupRule
from moto.ec2.models.subnets import Subnet, SubnetBackend
from moto.ec2.models.tags import TagBackend
from moto.ec2.models.vpcs import VPCBackend
from moto.ec2.responses import instances as instance_responses
from moto.ec2.responses._base_response import EC2BaseResponse
from moto.ec2.responses.nat_gateways import NatGateways
from moto.ec2.responses.route_tables import RouteTables
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, filter_dict_attribute_mapping, get_prefix, is_tag_filter
from moto.elbv2.exceptions import DuplicateListenerError, DuplicateLoadBalancerName, DuplicateTargetGroupName
from moto.elbv2.models import ELBv2Backend
from moto.iam.exceptions import NotFoundException
from moto.ssm.models import SimpleSystemManagerBackend

MAX_TOKEN_LENGTH = 64
MAX_USER_DATA = 16 * 1024
MAX_FILTER_VALUES = 200
PROTOCOLS_WITH_PORTS = {"tcp", "udp", "icmp", "icmpv6"}
# How long a NAT gateway is pending, and deleting.
NAT_GATEWAY_TIME = timedelta(seconds=2)

EKS_IMAGES = "/aws/service/eks/optimized-ami/"


def apply():
    list_what_never_changes_once()
    form_answers_side_by_side()
    look_tags_up_by_id()
    delete_interfaces_with_their_instance()
    free_addresses_of_terminated_instances()
    give_interfaces_their_ipv6_addresses()
    show_the_state_of_ipv6_blocks()
    refuse_launches_as_ec2_does()
    terminate_by_zone()
    refuse_malformed_instance_ids()
    refuse_filters_as_ec2_does()
    delete_network_acls_with_their_vpc()
    keep_what_is_in_use()
    let_nat_gateways_take_time()
    know_client_tokens()
    tell_rules_apart_as_ec2_does()
    make_parts_of_load_balancers_once()
    list_no_target_groups_of_a_new_load_balancer()
    let_the_images_of_eks_be_published()


def list_what_never_changes_once():
    """moto lists its own folders, and the methods of the class that answers, in each request: a sixth of its time."""
    modules = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)


def form_answers_side_by_side():
    """Two answers are formed at a time; moto adds to the one list of what to transform while another thread reads it."""
    make = AttributePicker.__init__

    def make_picker(self, alias_providers=None, response_transformers=None):
        make(self, alias_providers, dict(response_transformers or {}))

    AttributePicker.__init__ = make_picker


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


def free_addresses_of_terminated_instances():
    """The association of an Elastic IP ends with its instance; moto keeps it."""
    terminate = Instance.terminate

    def terminate_and_disassociate(self):
        for address in self.ec2_backend.describe_addresses():
            if address.instance is self:
                self.ec2_backend.disassociate_address(association_id=address.association_id)
        return terminate(self)

    Instance.terminate = terminate_and_disassociate


def give_interfaces_their_ipv6_addresses():
    """RunInstances takes the number of IPv6 addresses for each interface; moto reads that of the instance only."""
    prepare = Instance.prep_nics

    def prep_nics(self, nic_spec, *args, **kwargs):
        counts = [int(spec["Ipv6AddressCount"]) for spec in nic_spec if spec.get("Ipv6AddressCount")]
        if counts:
            kwargs["ipv6_address_count"] = counts[0]
        prepare(self, nic_spec, *args, **kwargs)

    Instance.prep_nics = prep_nics


def show_the_state_of_ipv6_blocks():
    """The state of the IPv6 block of a subnet is a word; moto shows a structure in its place."""
    read = Subnet.ipv6_cidr_block_association_set.fget

    def ipv6_cidr_block_association_set(self):
        blocks = read(self)
        for block in blocks:
            block["ipv6CidrBlockState"] = {"state": block["ipv6CidrBlockState"]["state"]["State"]}
        return blocks

    Subnet.ipv6_cidr_block_association_set = property(ipv6_cidr_block_association_set)


def refuse_launches_as_ec2_does():
    """A token and user data have a size, security groups belong to the VPC of their subnet, a profile must exist."""
    run = InstanceBackend.run_instances

    def run_instances(self, image_id, count, user_data, security_group_names, **kwargs):
        token = kwargs.get("client_token") or ""
        if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
            raise EC2ClientError("InvalidParameterValue", "ClientToken takes up to 64 ASCII characters")
        if user_data is not None and len(base64.b64decode(str(user_data))) > MAX_USER_DATA:
            raise EC2ClientError("InvalidParameterValue", "User data is limited to 16384 bytes")
        interfaces = [(nic.get("SubnetId"), nic.get("Groups") or []) for nic in kwargs.get("nics") or []]
        for subnet_id, groups in [(kwargs.get("subnet_id"), kwargs.get("security_group_ids") or []), *interfaces]:
            check_groups(self, subnet_id, groups)
        return run(self, image_id, count, user_data, security_group_names, **kwargs)

    find_profile = instance_responses.filter_iam_instance_profiles

    def filter_iam_instance_profiles(*args, **kwargs):
        try:
            return find_profile(*args, **kwargs)
        except NotFoundException:
            # IAM's own error; EC2 has another.
            name = kwargs.get("iam_instance_profile_name")
            message = (
                f"Value ({name}) for parameter iamInstanceProfile.name is invalid. "
                "Invalid IAM Instance Profile name"
            )
            raise EC2ClientError("InvalidParameterValue", message) from None

    InstanceBackend.run_instances = run_instances
    instance_responses.filter_iam_instance_profiles = filter_iam_instance_profiles


def check_groups(backend, subnet_id, group_ids):
    if not subnet_id:
        return
    subnet = backend.get_subnet(subnet_id)
    for group_id in group_ids:
        group = backend.get_security_group_from_id(group_id)
        if group is None:
            raise InvalidSecurityGroupNotFoundError(group_id)
        if group.vpc_id != subnet.vpc_id:
            message = f"Security group {group_id} and subnet {subnet_id} belong to different networks."
            raise EC2ClientError("InvalidParameter", message)


def terminate_by_zone():
    """A protected instance spares those of its zone and no others; moto terminates those named before it."""
    terminate = InstanceBackend.terminate_instances

    def terminate_instances(self, instance_ids):
        instances = self.get_multi_instances_by_id(instance_ids) if instance_ids else []
        zone_of = {instance.id: instance.placement.zone for instance in instances}
        protected = [instance.id for instance in instances if instance.disable_api_termination]
        spared = {zone_of[instance_id] for instance_id in protected}
        others = [instance_id for instance_id in instance_ids if zone_of[instance_id] not in spared]
        if not protected:
            return terminate(self, instance_ids)
        if others:
            terminate(self, others)
        # Refused with moto's own words.
        return terminate(self, protected)

    InstanceBackend.terminate_instances = terminate_instances


def refuse_malformed_instance_ids():
    find = InstanceBackend.get_multi_instances_by_id

    def get_multi_instances_by_id(self, instance_ids, filters=None):
        for instance_id in instance_ids:
            if not re.fullmatch("i-[0-9a-f]+", instance_id):
                raise EC2ClientError("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')
        return find(self, instance_ids, filters)

    InstanceBackend.get_multi_instances_by_id = get_multi_instances_by_id


def refuse_filters_as_ec2_does():
    """What moto does not know as a filter is refused with EC2's code, and so are too many values."""

    class UnknownFilter(EC2ClientError):
        def __init__(self, name, _action=None):
            super().__init__("InvalidParameterValue", f"The filter '{name}' is invalid")

    for name, module in list(sys.modules.items()):
        if name.startswith("moto.ec2") and hasattr(module, "FilterNotImplementedError"):
            module.FilterNotImplementedError = UnknownFilter

    read = EC2BaseResponse._filters_from_querystring

    def filters_from_querystring(self):
        filters = read(self)
        if self._get_action() == "DescribeInstances":
            # moto looks at each instance only, and lets what is no filter pass where there is none.
            for filter_name in filters:
                if filter_name not in filter_dict_attribute_mapping and not is_tag_filter(filter_name):
                    raise UnknownFilter(filter_name)
        if sum(len(values) for values in filters.values()) > MAX_FILTER_VALUES:
            message = "The maximum number of filter values specified on a single call is 200"
            raise EC2ClientError("FilterLimitExceeded", message)
        return filters

    EC2BaseResponse._filters_from_querystring = filters_from_querystring


def delete_network_acls_with_their_vpc():
    """The default network ACL of a VPC goes with it; moto keeps it."""
    delete = VPCBackend.delete_vpc

    def delete_vpc(self, vpc_id):
        deleted = delete(self, vpc_id)
        for acl_id in [acl.id for acl in self.network_acls.values() if acl.vpc_id == vpc_id]:
            del self.network_acls[acl_id]
        return deleted

    VPCBackend.delete_vpc = delete_vpc


def keep_what_is_in_use():
    """A subnet and a security group cannot go while an interface or a rule uses them, nor the gateway of a VPC with
    public addresses; moto lets them go. Load balancers have no interfaces here."""
    delete_subnet = SubnetBackend.delete_subnet
    delete_group = SecurityGroupBackend._delete_security_group
    detach = InternetGatewayBackend.detach_internet_gateway

    def refuse_if(is_used, message):
        if is_used:
            raise EC2ClientError("DependencyViolation", message)

    def delete_unused_subnet(self, subnet_id):
        is_used = any(interface.subnet.id == subnet_id for interface in list(self.enis.values()))
        refuse_if(is_used, f"The subnet '{subnet_id}' has dependencies and cannot be deleted.")
        return delete_subnet(self, subnet_id)

    def delete_unused_group(self, vpc_id, group_id):
        interfaces = list(self.enis.values())
        groups = [group for of_vpc in list(self.groups.values()) for group in list(of_vpc.values())]
        others = [group for group in groups if group.id != group_id]
        rules = [rule for group in others for rule in (*group.ingress_rules, *group.egress_rules)]
        is_used = any(group.id == group_id for interface in interfaces for group in interface.group_set)
        is_used = is_used or any(rule.source_group.get("GroupId") == group_id for rule in rules)
        refuse_if(is_used, f"resource {group_id} has a dependent object")
        return delete_group(self, vpc_id, group_id)

    def detach_unused(self, internet_gateway_id, vpc_id):
        vpc = self.get_internet_gateway(internet_gateway_id).vpc
        interfaces = list(self.enis.values())
        is_used = any(interface.subnet.vpc_id == vpc_id and interface.public_ip for interface in interfaces)
        refuse_if(vpc and vpc.id == vpc_id and is_used, f"Network {vpc_id} has some mapped public address(es)")
        return detach(self, internet_gateway_id, vpc_id)

    SubnetBackend.delete_subnet = delete_unused_subnet
    SecurityGroupBackend._delete_security_group = delete_unused_group
    InternetGatewayBackend.detach_internet_gateway = detach_unused


def let_nat_gateways_take_time():
    """A NAT gateway is pending and deleting for a while, and then frees its address; moto has neither state."""

    def state(self):
        if getattr(self, "is_deleted", False):
            return "deleted"
        if getattr(self, "is_deleting", False):
            return "deleting"
        return "pending" if utcnow() - self._created_at < NAT_GATEWAY_TIME else "available"

    one_at_a_time = threading.Lock()

    def free(backend, gateway):
        try:
            for address in gateway.address_set:
                if address.get("associationId"):
                    backend.disassociate_address(association_id=address["associationId"])
        except InvalidAssociationIdError:
            # Somebody has disassociated it meanwhile.
            pass
        finally:
            backend.enis.pop(gateway._eni.id, None)
            gateway.is_deleted = True

    def delete_nat_gateway(self, nat_gateway_id):
        gateway = self.nat_gateways.get(nat_gateway_id)
        if gateway is None:
            raise EC2ClientError("NatGatewayNotFound", f"The Nat Gateway {nat_gateway_id} was not found")
        with one_at_a_time:
            is_first = not getattr(gateway, "is_deleting", False)
            gateway.is_deleting = True
        if is_first:
            freed = threading.Timer(NAT_GATEWAY_TIME.total_seconds(), free, (self, gateway))
            freed.daemon = True
            freed.start()
        return gateway

    NatGateway.state = property(state, lambda self, value: None)
    NatGatewayBackend.delete_nat_gateway = delete_nat_gateway


def know_client_tokens():
    """A call with the token of an earlier one makes nothing, and must be the same call; moto makes another resource."""
    one_at_a_time = threading.Lock()

    def remember(responses, action):
        create = getattr(responses, action)

        def create_once(self):
            token = self._get_param("ClientToken")
            if token is None:
                return create(self)
            parameters = copy.deepcopy(self.querystring)
            with one_at_a_time:
                calls = vars(self.ec2_backend).setdefault("calls_by_token", {})
                if (action, token) not in calls:
                    calls[action, token] = (parameters, create(self))
                first, answer = calls[action, token]
            if first != parameters:
                raise EC2ClientError("IdempotentParameterMismatch", f"The token {token} was used with other parameters")
            return answer

        setattr(responses, action, create_once)

    remember(NatGateways, "create_nat_gateway")
    remember(RouteTables, "create_route_table")


def tell_rules_apart_as_ec2_does():
    """A rule is its protocol, ports and source; moto adds the description of a group, and wants ports of all protocols."""
    make = SecurityGroupRule.__init__

    def make_rule(self, ec2_backend, ip_protocol, group_id, from_port, to_port, *args, **kwargs):
        from_port, to_port = (-1 if port is None else port for port in (from_port, to_port))
        make(self, ec2_backend, ip_protocol, group_id, from_port, to_port, *args, **kwargs)
        if self.ip_protocol not in PROTOCOLS_WITH_PORTS:
            self.from_port = self.to_port = None

    def key(rule):
        source = (rule.cidr_ipv4, rule.cidr_ipv6, rule.source_group.get("GroupId"), rule.prefix_list_id)
        return (rule.ip_protocol, rule.from_port, rule.to_port, rule.is_egress, *source)

    SecurityGroupRule.__init__ = make_rule
    SecurityGroupRule.__eq__ = lambda self, other: key(self) == key(other)


def make_parts_of_load_balancers_once():
    """A second call with the settings of the first one answers with what that has made, and one with other settings is
    refused; moto makes a second load balancer, and refuses each second target group and listener."""
    one_at_a_time = threading.Lock()
    create = ELBv2Backend.create_load_balancer
    listen = ELBv2Backend.create_listener
    group = ELBv2Backend.create_target_group

    def create_load_balancer(self, name, security_groups, subnet_ids, *args, scheme="internet-facing", **kwargs):
        return make_once(
            [made for made in list(self.load_balancers.values()) if made.name == name],
            copy.deepcopy((scheme, args, set(security_groups or []), set(subnet_ids), {**kwargs, "tags": None})),
            DuplicateLoadBalancerName(),
            lambda: create(self, name, security_groups, subnet_ids, *args, scheme=scheme, **kwargs),
        )

    def alone(call):
        @functools.wraps(call)
        def call_alone(*args, **kwargs):
            with one_at_a_time:
                return call(*args, **kwargs)

        return call_alone

    def make_once(same_name, settings, refusal, make):
        for made in same_name:
            if made.settings != settings:
                raise refusal
            return made
        made = make()
        made.settings = settings
        return made

    def create_listener(self, load_balancer_arn, protocol, port, *args, tags=None, **kwargs):
        balancer = self.load_balancers.get(load_balancer_arn)
        listeners = list(balancer.listeners.values()) if balancer else ()
        return make_once(
            [listener for listener in listeners if str(listener.port) == str(port)],
            copy.deepcopy((protocol, args, kwargs)),
            DuplicateListenerError(),
            lambda: listen(self, load_balancer_arn, protocol, port, *args, tags=tags, **kwargs),
        )

    def create_target_group(self, name, *, tags=None, **kwargs):
        return make_once(
            [made for made in list(self.target_groups.values()) if made.name == name],
            copy.deepcopy(kwargs),
            DuplicateTargetGroupName(),
            lambda: group(self, name, tags=tags, **kwargs),
        )

    ELBv2Backend.create_load_balancer = alone(create_load_balancer)
    ELBv2Backend.create_target_group = alone(create_target_group)
    ELBv2Backend.create_listener = alone(create_listener)


def list_no_target_groups_of_a_new_load_balancer():
    """ELB lists the target groups of a load balancer that has none: it knows the load balancer. moto refuses the call."""
    describe = ELBv2Backend.describe_target_groups

    def describe_target_groups(self, load_balancer_arn, target_group_arns, names):
        groups = self.target_groups.values()
        if load_balancer_arn in self.load_balancers and not any(load_balancer_arn in group.load_balancer_arns for group in groups):
            return []
        return describe(self, load_balancer_arn, target_group_arns, names)

    ELBv2Backend.describe_target_groups = describe_target_groups


def let_the_images_of_eks_be_published():
    """AWS publishes parameters with the images of EKS; moto has none, and refuses their names to the tests."""
    put = SimpleSystemManagerBackend.put_parameter

    def put_parameter(self, name, *args, **kwargs):
        if not name.startswith(EKS_IMAGES):
            return put(self, name, *args, **kwargs)
        parameter = put(self, name.removeprefix("/aws"), *args, **kwargs)
        self._parameters[name] = self._parameters.pop(parameter.name)
        parameter.name = name
        return parameter

    SimpleSystemManagerBackend.put_parameter = put_parameter
