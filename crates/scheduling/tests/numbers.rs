//! Numbers as users write them, and free room.

use scheduling::{
    numbers::{
        self, Error, Fault, IntOrPercent, Pace, Percent, Rounding, concurrency, max_surge, max_unavailable,
        rebalance,
    },
    pulls,
    split::fit::{Cause, effective, quantised, weights},
};

fn percent(text: &str) -> IntOrPercent {
    IntOrPercent::parse("field", text).expect("a percent")
}

fn fault(text: &str) -> Fault {
    IntOrPercent::parse("field", text).expect_err("not a percent").fault
}

#[test]
fn percents_are_exact_decimals() {
    assert_eq!(percent("12.5%").resolve(8, Rounding::Up), 1);
    assert_eq!(percent("12.5%").resolve(9, Rounding::Up), 2);
    assert_eq!(percent("12.5%").resolve(9, Rounding::Down), 1);
    // 0.07 x 100 is not 7 in binary floating point.
    assert_eq!(percent("0.7%").resolve(1_000, Rounding::Up), 7);
    assert_eq!(percent("33.3%").resolve(0, Rounding::Up), 0);
    assert_eq!(percent("100%").resolve(u64::MAX, Rounding::Up), u64::MAX);
    assert_eq!(percent("250%").resolve(4, Rounding::Down), 10);
    assert_eq!(percent("12.50%").to_string(), "12.5%");
}

#[test]
fn texts_that_are_no_percent_are_refused_with_the_field_named() {
    for text in
        ["", "%", "5", "abc", "1e3%", "1.2.3%", " 5%", "5 %", "+5%", "٣%", "0.1234567891%", "NaN%", "inf%"]
    {
        assert_eq!(fault(text), Fault::NotAPercent, "{text}");
    }
    assert_eq!(fault("-1%"), Fault::Negative);
    assert_eq!(fault("99999999999999999999999%"), Fault::TooLarge);
    let negative = IntOrPercent::int("spec.updateStrategy.partition", -1).unwrap_err();
    assert_eq!(negative.to_string(), "spec.updateStrategy.partition must not be negative");
    assert_eq!(IntOrPercent::int("f", 1 << 40), Err(Error { field: "f", fault: Fault::TooLarge }));
}

#[test]
fn section_23_a_partition_above_100_percent_is_refused() {
    let checked = |text: &str| numbers::check_partition("partition", percent(text));
    assert_eq!(checked("101%"), Err(Error { field: "partition", fault: Fault::AboveHundredPercent }));
    assert_eq!(checked("100.000000001%").unwrap_err().fault, Fault::AboveHundredPercent);
    assert_eq!(checked("100%"), Ok(()));
}

#[test]
fn rev_2_only_the_text_100_percent_keeps_all_pods_old() {
    let kept = |text: &str, replicas| numbers::partition(Some(percent(text)), replicas);
    assert_eq!(kept("100%", 10), 10);
    assert_eq!(kept("100.0%", 10), 9);
    assert_eq!(kept("99%", 10), 9);
    assert_eq!(kept("99%", 1), 1);
    assert_eq!(kept("0%", 10), 0);
    assert_eq!(numbers::partition(Some(IntOrPercent::Int(10)), 10), 10);
    assert_eq!(numbers::partition(Some(IntOrPercent::Int(99)), 10), 10);
    assert_eq!(numbers::partition(None, 10), 0);
}

#[test]
fn bud_1_unavailable_rounds_up_only_without_surge() {
    let surge = max_surge(Some(percent("1%")), 10, Pace::Rolling);
    assert_eq!(surge, 1);
    assert_eq!(max_surge(Some(percent("1%")), 10, Pace::Paused), 0);
    assert_eq!(max_surge(None, 10, Pace::Rolling), 0);
    assert_eq!(max_unavailable(Some(percent("25%")), 10, 0), 3);
    assert_eq!(max_unavailable(Some(percent("25%")), 10, surge), 2);
    assert_eq!(max_unavailable(None, 11, 0), 3);
}

#[test]
fn move_1_a_rebalance_needs_room_one_way_or_the_other() {
    let int = IntOrPercent::Int;
    assert_eq!(rebalance(percent("10%"), int(0), 11), Ok((2, 0)));
    assert_eq!(rebalance(int(0), percent("10%"), 5), Ok((0, 1)));
    assert_eq!(rebalance(int(1), percent("10%"), 5), Ok((1, 0)));
    let both = Err(Error { field: "rebalance.maxSurge", fault: Fault::BothZero });
    assert_eq!(rebalance(int(0), percent("0%"), 5), both);
}

#[test]
fn rel_4_at_least_one_cluster_of_a_wave_is_at_work() {
    assert_eq!(concurrency(Some(percent("10%")), 5), 1);
    assert_eq!(concurrency(Some(percent("50%")), 5), 2);
    assert_eq!(concurrency(Some(IntOrPercent::Int(0)), 5), 1);
    assert_eq!(concurrency(None, 5), 5);
}

#[test]
fn ipj_1_parallelism_is_an_integer() {
    assert_eq!(pulls::parallelism(None), Ok(1));
    assert_eq!(pulls::parallelism(Some(IntOrPercent::Int(0))), Ok(0));
    let refused = pulls::parallelism(Some(IntOrPercent::Percent(Percent::whole(5)))).unwrap_err();
    assert_eq!(refused.to_string(), "spec.parallelism must be an integer, not a percent");
}

#[test]
fn split_7_weights_are_steps_of_five_percent_and_stay_while_only_reports_come_in() {
    let fits = [Some(100), Some(51), Some(1), Some(0), None];
    assert_eq!(quantised(&fits), [20, 11, 1, 0, 20]);
    assert_eq!(quantised(&[Some(0), None]), [0, 20]);
    let in_use = [20, 10, 1, 0, 20];
    assert_eq!(weights(Some(&in_use), &fits, Cause::Report), in_use);
    for cause in [Cause::Spec, Cause::Policy, Cause::ClusterSet, Cause::Rebalance] {
        assert_eq!(weights(Some(&in_use), &fits, cause), [20, 11, 1, 0, 20]);
    }
    assert_eq!(weights(None, &fits, Cause::Report), [20, 11, 1, 0, 20]);
}

#[test]
fn split_7_what_others_were_promised_is_not_free_and_running_pods_always_fit() {
    assert_eq!(effective(Some(10), 3, 4), Some(9));
    assert_eq!(effective(Some(2), 3, 4), Some(3));
    assert_eq!(effective(None, 3, 4), None);
    assert_eq!(effective(Some(u32::MAX), u32::MAX, 0), Some(u32::MAX));
}

/// BUD-1
#[test]
fn both_budgets_of_zero_are_refused_unless_a_pause_makes_the_surge_zero() {
    let int = |it| Some(IntOrPercent::Int(it));
    assert_eq!(numbers::budgets(None, None, 10, Pace::Rolling), Ok((2, 0)));
    assert_eq!(numbers::budgets(int(0), int(1), 10, Pace::Rolling), Ok((0, 1)));
    assert_eq!(numbers::budgets(int(0), int(1), 10, Pace::Paused), Ok((0, 0)));
    assert_eq!(numbers::budgets(int(0), int(0), 0, Pace::Rolling), Ok((0, 0)));
    for pace in [Pace::Rolling, Pace::Paused] {
        let error = numbers::budgets(int(0), int(0), 10, pace).unwrap_err();
        assert_eq!(error.fault, Fault::BothZero);
    }
    // 1% of 10 is rounded down beside a surge, and up without one.
    let percent = Some(IntOrPercent::Percent(Percent::whole(1)));
    assert_eq!(numbers::budgets(percent, int(1), 10, Pace::Rolling), Ok((0, 1)));
    assert_eq!(numbers::budgets(percent, int(0), 10, Pace::Rolling), Ok((1, 0)));
}
