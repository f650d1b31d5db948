//! The parameters of calls about load balancers.

use super::super::answer::Refusal;
use super::super::request::Request;
use super::facts::TargetGroup;
use super::targets::{TargetId, is_instance};

/// The value of a required parameter.
pub(super) fn required<'a>(request: &'a Request, name: &str) -> Result<&'a str, Refusal> {
    let missing = || Refusal::new(400, "ValidationError", format!("{name} must be given"));
    request.parameter(name).ok_or_else(missing)
}

/// The targets of a call, with the group's port where the call names none. A target of the wrong type is refused.
pub(super) fn targets(request: &Request, group: &TargetGroup) -> Result<Vec<TargetId>, Refusal> {
    let mut targets = Vec::new();
    for number in 1.. {
        let Some(id) = request.parameter(&format!("Targets.member.{number}.Id")) else {
            break;
        };
        let port = request.parameter(&format!("Targets.member.{number}.Port"));
        let target =
            TargetId { id: id.to_owned(), port: port.and_then(|port| port.parse().ok()).unwrap_or(group.port) };
        let fits = match group.target_type.as_str() {
            "instance" => is_instance(&target),
            "ip" => id.parse::<std::net::IpAddr>().is_ok(),
            _ => id.starts_with("arn:"),
        };
        if !fits {
            let message = format!("'{id}' is no target of a target group of type {}", group.target_type);
            return Err(Refusal::new(400, "ValidationError", message));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// The instances that a call about a classic load balancer names.
pub(super) fn instances(request: &Request) -> Vec<TargetId> {
    let id = |number: u32| request.parameter(&format!("Instances.member.{number}.InstanceId"));
    let ids = (1..).map_while(id).map(str::to_owned);
    ids.map(|id| TargetId { id, port: 0 }).collect()
}
