use capa_cloud::ErrorClass;

use super::*;
use crate::Fault;

#[test]
fn a_fault_decides_answer_and_effect_of_one_call() {
    let table = [
        (Fault::Refused("UnauthorizedOperation"), Some(ErrorClass::Unauthorized), 0),
        (Fault::Refused("VpcLimitExceeded"), Some(ErrorClass::QuotaExceeded), 0),
        (Fault::Throttled, Some(ErrorClass::Throttled), 0),
        (Fault::AnswerLost, Some(ErrorClass::NoAnswer), 1),
        (Fault::NoEffect, Some(ErrorClass::NoAnswer), 0),
        (Fault::CrashBefore, None, 0),
        (Fault::CrashAfter, None, 1),
        (Fault::CrashInFlight, None, 1),
    ];
    for (fault, class, count) in table {
        let account = FakeAccount::new();
        account.fail(1, fault);
        made(&account, create_gateway());
        let answer = attempt(&account, create_vpc("10.0.0.0/16"));
        assert_eq!(answer.map(|answer| answer.unwrap_err().class), class, "{fault:?}");
        assert_eq!(account.vpcs().len(), count, "{fault:?}");
        assert_eq!(account.crashed(), fault.is_crash(), "{fault:?}");
        account.restart();
        made(&account, create_vpc("10.0.0.0/16"));
        assert_eq!(account.calls(), 3, "{fault:?}");
    }
}

#[test]
fn a_call_that_ec2_refuses_is_refused_behind_a_lost_answer() {
    let account = FakeAccount::new();
    account.fail(0, Fault::AnswerLost);
    let error = call(&account, create_vpc("10.0.0.0/8")).unwrap_err();
    assert_eq!(error.class, ErrorClass::NoAnswer);
    let effect = account.journal().remove(0).effect.unwrap();
    assert_eq!(code(effect), "InvalidVpc.Range");
}

#[test]
fn an_ended_process_gets_no_answers_until_it_starts_again() {
    let account = FakeAccount::new();
    account.fail(0, Fault::CrashAfter);
    let scope = Scope { cluster: "dev".to_owned(), ..Scope::default() };
    assert_eq!(attempt(&account, create_gateway()), None);
    assert_eq!(attempt(&account, create_gateway()), None);
    assert!(account.observe(&scope).now_or_never().is_none());
    assert!(account.zones().now_or_never().is_none());
    assert_eq!((account.calls(), account.internet_gateways().len()), (1, 1));
    account.restart();
    made(&account, create_gateway());
    assert!(account.observe(&scope).now_or_never().is_some());
}

#[test]
fn calls_in_flight_take_effect_when_the_process_ends() {
    let account = FakeAccount::new();
    account.fail(0, Fault::CrashInFlight);
    assert_eq!(attempt(&account, create_gateway()), None);
    assert_eq!(attempt(&account, create_vpc("10.0.0.0/16")), None);
    assert!(account.crashed());
    assert_eq!((account.calls(), account.vpcs().len()), (2, 1));
    assert!(account.journal().iter().all(|entry| entry.answer.is_none()));
}

#[test]
fn the_journal_has_call_effect_answer_and_time() {
    let account = FakeAccount::new();
    account.advance(seconds(7));
    account.fail(1, Fault::AnswerLost);
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    call(&account, create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a")).unwrap_err();
    let journal = account.journal();
    assert_eq!(journal[0].made(), Some(vpc.as_str()));
    assert_eq!(journal[0].ids(), Vec::<String>::new());
    assert_eq!(journal[0].effect, journal[0].answer);
    assert_eq!(journal[1].made(), Some(account.subnets()[0].id.as_str()));
    assert_eq!((journal[1].ids(), journal[1].at), (vec![vpc], seconds(7)));
}
