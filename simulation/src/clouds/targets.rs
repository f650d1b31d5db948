//! Calls about load balancer targets.

use capa_cloud::CloudError;
use capa_cloud::targets::{GroupAnswer, GroupCall, Question};

use super::CloudClient;

impl CloudClient {
    pub(super) async fn group_call(&self, call: GroupCall) -> Result<GroupAnswer, CloudError> {
        let writes = matches!(call.question, Question::Register(_) | Question::Deregister(_));
        if writes {
            self.lead().await;
        }
        let about = match &call.question {
            Question::Register(targets) | Question::Deregister(targets) => {
                let ids: Vec<&str> = targets.iter().map(|target| target.id.as_str()).collect();
                format!("{} {}", call.group, ids.join(" "))
            }
            Question::Facts | Question::Health | Question::Delay => call.group.to_string(),
        };
        self.call(call.action(), writes, about, move |outside, _| {
            outside.aws.manager().group_call(outside.now, &call)
        })
        .await
    }
}
