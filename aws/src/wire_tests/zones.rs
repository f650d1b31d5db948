//! The zones of a region.

use capa_cloud::managed::ManagedClouds;

use super::fake::{Fake, REGION, answer, caller_identity, identity};

#[tokio::test]
async fn zones_that_need_no_opt_in_are_asked_for_once() {
    let fake = Fake::start(|call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        action => {
            let zone = |name: &str, state: &str, opt_in: &str, kind: &str| {
                format!(
                    "<item><zoneName>{name}</zoneName><zoneState>{state}</zoneState>\
                     <optInStatus>{opt_in}</optInStatus><zoneType>{kind}</zoneType></item>"
                )
            };
            let (free, usual) = ("opt-in-not-required", "availability-zone");
            let zones = zone("us-test-1b", "available", free, usual)
                + "<item><zoneName>us-test-1a</zoneName></item>"
                + &zone("us-test-1c", "unavailable", free, usual)
                + &zone("us-test-1-lax-1a", "available", "opted-in", "local-zone")
                + &zone("us-test-1-wl1", "available", free, "wavelength-zone");
            answer(action, &format!("<availabilityZoneInfo>{zones}</availabilityZoneInfo>"), None)
        }
    })
    .await;
    let pool = fake.pool().await;
    for _ in 0..2 {
        let cloud = pool.managed(&identity("A"), REGION);
        assert_eq!(cloud.zones().await.unwrap(), ["us-test-1a", "us-test-1b"]);
        assert_eq!(cloud.account_id().await.unwrap(), "123456789012");
    }
    let calls = fake.calls_of("DescribeAvailabilityZones");
    assert_eq!(calls.len(), 1);
    for (number, name, value) in
        [(1, "state", "available"), (2, "opt-in-status", "opt-in-not-required"), (3, "zone-type", "availability-zone")]
    {
        let field = |part: &str| calls[0].field(&format!("Filter.{number}.{part}")).to_owned();
        assert_eq!((field("Name").as_str(), field("Value.1").as_str()), (name, value));
    }
}
