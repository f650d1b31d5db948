//! Rules about credentials, the region and permissions.

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use crate::facts::{Answer, DryRun, Facts, Failure, FailureKind, OptInStatus};
use crate::rule::{Category::Identity, Checked, Problem, Rule, ShownBy, applies, known, of_each};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "I1",
        category: Identity,
        severity: Blocking,
        title: "The credentials are valid, and of the account that the cluster expects",
        breaks: "Every call to AWS is refused, or machines appear in another account.",
        shown_by: ShownBy::Moto,
        check: credentials,
    },
    Rule {
        id: "I2",
        category: Identity,
        severity: Blocking,
        title: "The region exists, and the account has enabled it",
        breaks: "Every call to AWS in the region fails.",
        shown_by: ShownBy::Recorded,
        check: region,
    },
    Rule {
        id: "I3",
        category: Identity,
        severity: Blocking,
        title: "The endpoints of AWS that the provider calls can be reached",
        breaks: "The provider can neither launch nor terminate instances. A proxy or an endpoint policy is the usual \
                 cause.",
        shown_by: ShownBy::Recorded,
        check: endpoints,
    },
    Rule {
        id: "I4",
        category: Identity,
        severity: Blocking,
        title: "The credentials may launch the machines, with their subnets, security groups and instance profiles",
        breaks: "No machine of the template is launched.",
        shown_by: ShownBy::Moto,
        check: launches,
    },
    Rule {
        id: "I5",
        category: Identity,
        severity: Warning,
        title: "The credentials may terminate and tag instances",
        breaks: "Machines cannot be deleted, or are launched without the tags by which the provider finds them again.",
        shown_by: ShownBy::Recorded,
        check: other_calls,
    },
];

fn credentials(facts: &Facts) -> Checked {
    match &facts.account_id {
        Answer::Failed(Failure { kind: FailureKind::Denied, .. }) => Ok(vec![
            Problem::new(
                "credentials",
                "AWS refuses the credentials",
                "correct the credentials that the check or the identity of the cluster uses",
            )
            .fixed_by("aws sts get-caller-identity"),
        ]),
        answer => {
            let account = known(answer, "the account")?;
            let Some(expected) = &facts.demand.account_id else {
                return Ok(vec![]);
            };
            let wrong = (account != expected).then(|| {
                Problem::new(
                    account,
                    format!("the credentials are of account {account}, and the cluster expects account {expected}"),
                    "use credentials of the expected account, or correct the account",
                )
                .fixed_by("aws sts get-caller-identity")
            });
            Ok(wrong.into_iter().collect())
        }
    }
}

fn region(facts: &Facts) -> Checked {
    let name = &facts.demand.region;
    let regions = known(&facts.regions, "the regions")?;
    let problem = match regions.iter().find(|region| region.name == *name) {
        None => Some(Problem::new(name, format!("AWS has no region {name}"), "correct the name of the region")),
        Some(region) if region.opt_in_status == OptInStatus::NotOptedIn => Some(
            Problem::new(
                name,
                format!("the account has not enabled region {name}"),
                "enable the region for the account",
            )
            .fixed_by(format!("aws account enable-region --region-name {name}")),
        ),
        Some(_) => None,
    };
    Ok(problem.into_iter().collect())
}

fn endpoints(facts: &Facts) -> Checked {
    // If AWS was not called, the facts say nothing about its endpoints.
    applies(facts.account_id != Answer::NotAsked)?;
    let mut unreachable: Vec<(&str, &Failure)> = Vec::new();
    let failures = [
        ("sts", facts.account_id.failure()),
        ("ec2", facts.vpc.failure()),
        ("ec2", facts.subnets.failure()),
        ("elasticloadbalancing", facts.target_groups.failure()),
    ];
    for (service, failure) in failures {
        if let Some(failure) = failure.filter(|failure| failure.kind == FailureKind::Unreachable)
            && unreachable.last().is_none_or(|(last, _)| *last != service)
        {
            unreachable.push((service, failure));
        }
    }
    let region = &facts.demand.region;
    let problems = unreachable.into_iter().map(|(service, failure)| {
        Problem::new(
            service,
            format!("the endpoint of {service} in {region} does not answer {}", failure.call),
            "allow the way to the endpoint: proxy settings, routes, security groups and policies of VPC endpoints",
        )
    });
    Ok(problems.collect())
}

fn launches(facts: &Facts) -> Checked {
    applies(!facts.launches.is_empty())?;
    of_each(facts.launches.iter().map(|(template, answer)| {
        Ok(match known(answer, &format!("whether {template} can be launched"))? {
            DryRun::Allowed => None,
            DryRun::Denied(message) => Some(Problem::new(
                template,
                format!("the credentials may not launch a machine: {message}"),
                "allow ec2:RunInstances, ec2:CreateTags and iam:PassRole as `capa-rs iam` prints them",
            )),
            DryRun::Refused(message) => Some(Problem::new(
                template,
                format!("EC2 refuses the launch of a machine: {message}"),
                "correct what the message names",
            )),
        })
    }))
}

fn other_calls(facts: &Facts) -> Checked {
    applies(!facts.other_calls.is_empty())?;
    of_each(facts.other_calls.iter().map(|(action, answer)| {
        let judged = known(answer, &format!("whether {action} is allowed"))?;
        let DryRun::Denied(message) = judged else {
            return Ok(None);
        };
        Ok(Some(Problem::new(
            action,
            format!("the credentials may not call {action}: {message}"),
            "allow the action as `capa-rs iam` prints it",
        )))
    }))
}
