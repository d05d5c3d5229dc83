//! The checker is tested: small histories with a known answer for each class, and planted faults in valid histories of a
//! real server, each of which must be found.

use crate::references::stored;
use Operation::{Append, Read};
use workloads::check::{
    Access, Class, Findings, History, Key, Model, Operation, Outcome, RegisterFault, Transaction, Value,
    check, check_each_key, check_register, stale_reads,
};

const X: Key = Key(1);
const Y: Key = Key(2);

fn list(values: &[u32]) -> Vec<Value> {
    values.iter().copied().map(Value).collect()
}

fn append(key: Key, value: u32) -> Operation {
    Append(key, Value(value))
}

fn read(key: Key, values: &[u32]) -> Operation {
    Read(key, list(values))
}

/// All at the same time, each in its own session.
fn concurrent(transactions: &[&[Operation]]) -> History {
    let one = |(process, operations): (usize, &&[Operation])| Transaction {
        process: u32::try_from(process).expect("a few"),
        began: 0,
        ended: 100,
        outcome: Outcome::Committed,
        operations: operations.to_vec(),
    };
    History { transactions: transactions.iter().enumerate().map(one).collect() }
}

/// One after the other, each in its own session.
fn in_order(transactions: &[&[Operation]]) -> History {
    let mut history = concurrent(transactions);
    for (time, transaction) in (0..).zip(&mut history.transactions) {
        (transaction.began, transaction.ended) = (10 * time, 10 * time + 5);
    }
    history
}

fn names(findings: &Findings) -> Vec<String> {
    findings.anomalies.iter().map(|anomaly| anomaly.name()).collect()
}

#[test]
fn nothing_is_wrong_with_a_serial_history() {
    let findings = check(&in_order(&[&[append(X, 1)], &[read(X, &[1]), append(X, 2)], &[read(X, &[1, 2])]]));
    assert!(findings.anomalies.is_empty() && findings.broken.is_empty(), "{findings}");
    assert_eq!(findings.living, 3);
}

#[test]
fn write_cycle_is_g0() {
    let findings = check(&concurrent(&[
        &[append(X, 1), append(Y, 1)],
        &[append(X, 2), append(Y, 2)],
        &[read(X, &[1, 2]), read(Y, &[2, 1])],
    ]));
    assert!(findings.found("G0") && !findings.holds(Model::ReadCommitted), "{findings}");
}

#[test]
fn mutual_reads_are_g1c() {
    let findings = check(&concurrent(&[&[append(X, 1), read(Y, &[2])], &[append(Y, 2), read(X, &[1])]]));
    assert_eq!(names(&findings), ["G1c"]);
    assert!(!findings.holds(Model::ReadCommitted));
}

#[test]
fn read_skew_is_g_single() {
    let findings = check(&concurrent(&[
        &[append(X, 1), append(Y, 2)],
        &[read(X, &[1]), read(Y, &[])],
        &[read(Y, &[2])],
    ]));
    assert_eq!(names(&findings), ["G-single"]);
    assert!(findings.holds(Model::ReadCommitted) && !findings.holds(Model::SnapshotIsolation));
}

#[test]
fn long_fork_is_g_nonadjacent() {
    let findings = check(&concurrent(&[
        &[append(X, 1)],
        &[append(Y, 2)],
        &[read(X, &[1]), read(Y, &[])],
        &[read(X, &[]), read(Y, &[2])],
    ]));
    assert_eq!(names(&findings), ["G-nonadjacent"]);
    assert!(findings.holds(Model::ReadCommitted) && !findings.holds(Model::SnapshotIsolation));
}

#[test]
fn write_skew_is_g2_item() {
    let findings = check(&concurrent(&[
        &[read(X, &[]), append(Y, 2)],
        &[read(Y, &[]), append(X, 1)],
        &[read(X, &[1]), read(Y, &[2])],
    ]));
    assert_eq!(names(&findings), ["G2-item"]);
    assert!(findings.holds(Model::StrongSnapshotIsolation) && !findings.holds(Model::Serializable));
}

#[test]
fn stale_reads_break_the_strong_models_only() {
    let mut history = in_order(&[&[append(X, 1)], &[read(X, &[])], &[read(X, &[1])]]);
    let findings = check(&history);
    assert_eq!(names(&findings), ["G-single-realtime"]);
    assert_eq!(findings.broken, [Model::StrongSnapshotIsolation, Model::StrictSerializable]);
    history.transactions[1].process = 0;
    let findings = check(&history);
    assert_eq!(names(&findings), ["G-single-process"]);
    assert!(
        !findings.holds(Model::StrongSessionSnapshotIsolation) && findings.holds(Model::SnapshotIsolation)
    );
}

#[test]
fn stale_reads_are_counted_where_the_checker_finds_them() {
    let mut history = in_order(&[
        &[append(X, 1)],
        &[read(X, &[])],
        &[append(Y, 2)],
        &[read(X, &[1]), read(Y, &[])],
        &[read(X, &[1]), read(Y, &[2])],
    ]);
    assert!(!check(&history).holds(Model::StrictSerializable));
    assert_eq!(stale_reads(&history, 0..u64::MAX), 2);
    assert_eq!((stale_reads(&history, 0..30), stale_reads(&history, 31..u64::MAX)), (1, 0));
    // The time of the first append's commit is unknown.
    history.transactions[0].outcome = Outcome::Unknown;
    assert_eq!(stale_reads(&history, 0..u64::MAX), 1);
    for fresh in ["read-committed", "repeatable-read", "serializable"] {
        assert_eq!(stale_reads(&stored(fresh), 0..u64::MAX), 0, "{fresh}");
    }
    assert!(stale_reads(&stored("repeatable-read-old-snapshots"), 0..u64::MAX) > 0);
}

#[test]
fn an_append_that_nobody_sees_is_lost() {
    let findings =
        check(&in_order(&[&[append(X, 1)], &[append(X, 2)], &[append(X, 3)], &[read(X, &[1, 3])]]));
    assert!(!findings.holds(Model::StrictSerializable) && findings.found("G0-realtime"), "{findings}");
}

#[test]
fn what_single_reads_show_needs_no_cycle() {
    let class = |history: &History| check(history).anomalies.first().map(|anomaly| anomaly.class);
    let of = |operations: &[&[Operation]]| class(&in_order(operations));
    assert_eq!(of(&[&[read(X, &[9])]]), Some(Class::NeverAppended));
    assert_eq!(of(&[&[append(X, 1)], &[read(X, &[1, 1])]]), Some(Class::Duplicate));
    assert_eq!(of(&[&[append(X, 1), read(X, &[])]]), Some(Class::Internal));
    assert_eq!(of(&[&[append(X, 1), append(X, 2)], &[read(X, &[1])]]), Some(Class::G1b));
    assert_eq!(
        of(&[&[append(X, 1)], &[append(X, 2)], &[read(X, &[1, 2])], &[read(X, &[2])]]),
        Some(Class::IncompatibleOrder)
    );
    let mut failed = in_order(&[&[append(X, 1)], &[read(X, &[1])]]);
    failed.transactions[0].outcome = Outcome::Failed;
    assert_eq!(class(&failed), Some(Class::G1a));
}

#[test]
fn unknown_outcomes_live_if_they_were_read_and_may_end_late() {
    let mut history = in_order(&[&[append(X, 1)], &[read(X, &[])], &[read(X, &[1])]]);
    history.transactions[0].outcome = Outcome::Unknown;
    let findings = check(&history);
    assert!(findings.anomalies.is_empty(), "{findings}");
    assert_eq!(findings.living, 3);
    history.transactions.pop();
    assert_eq!(check(&history).living, 1);
}

#[test]
fn cycles_are_told_in_words() {
    let findings = check(&in_order(&[&[append(X, 1)], &[read(X, &[])], &[read(X, &[1])]]));
    let words = &findings.anomalies[0].words;
    assert!(words.contains("T1 found key 1 empty and did not see 1, which T0 appended (rw)"), "{words}");
    assert!(words.contains("T0 had ended when T1 began (real time)"), "{words}");
}

#[test]
fn keys_can_be_judged_alone() {
    let across =
        in_order(&[&[append(X, 1)], &[append(Y, 2)], &[read(X, &[])], &[read(Y, &[2])], &[read(X, &[1])]]);
    let broken = check_each_key(&across, Model::StrictSerializable);
    assert_eq!(broken.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [X]);
}

#[test]
fn histories_survive_their_file() {
    let mut history = stored("repeatable-read");
    history.transactions.truncate(50);
    let mut file = Vec::new();
    history.write(&mut file).unwrap();
    assert_eq!(History::read(file.as_slice()).unwrap(), history);
    let error = History::read("\n{\"p\":1}\n".as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("line 2 of the history:"), "{error}");
}

/// Places of reads: (transaction, operation, key, length), of committed transactions and not after own appends.
fn reads(history: &History) -> Vec<(usize, usize, Key, usize)> {
    let mut places = Vec::new();
    for (number, transaction) in history.transactions.iter().enumerate() {
        for (place, operation) in transaction.operations.iter().enumerate() {
            let before = &transaction.operations[..place];
            if let Read(key, values) = operation
                && transaction.outcome == Outcome::Committed
                && !before.iter().any(|other| matches!(other, Append(of, _) if of == key))
            {
                places.push((number, place, *key, values.len()));
            }
        }
    }
    places
}

fn values(history: &History, (transaction, place): (usize, usize)) -> &Vec<Value> {
    let Read(_, values) = &history.transactions[transaction].operations[place] else { panic!("a read") };
    values
}

fn set_values(history: &mut History, (transaction, place): (usize, usize), to: Vec<Value>) {
    let Read(_, values) = &mut history.transactions[transaction].operations[place] else { panic!("a read") };
    *values = to;
}

/// The transaction that appended the value, and when it had ended.
fn writer(history: &History, key: Key, value: Value) -> usize {
    let wrote = |transaction: &Transaction| transaction.operations.contains(&Append(key, value));
    history.transactions.iter().position(wrote).expect("somebody wrote it")
}

#[test]
fn two_swapped_reads_are_found() {
    let valid = stored("serializable");
    let reads = reads(&valid);
    let mut tried = 0;
    for (number, one) in reads.iter().enumerate() {
        // The first later read of the same key that sees an element whose writer began after this reader had ended.
        let ended = valid.transactions[one.0].ended;
        let other = reads[number..].iter().find(|other| {
            other.2 == one.2
                && other.3 > one.3
                && values(&valid, (other.0, other.1))[one.3..]
                    .iter()
                    .any(|value| valid.transactions[writer(&valid, one.2, *value)].began > ended)
        });
        let Some(other) = other else { continue };
        if number % 7 != 0 {
            continue;
        }
        let mut planted = valid.clone();
        set_values(&mut planted, (one.0, one.1), values(&valid, (other.0, other.1)).clone());
        set_values(&mut planted, (other.0, other.1), values(&valid, (one.0, one.1)).clone());
        let findings = check(&planted);
        assert!(!findings.holds(Model::StrictSerializable), "{one:?} {other:?}\n{findings}");
        assert!(!findings.holds(Model::StrongSnapshotIsolation), "{one:?} {other:?}\n{findings}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn a_dropped_append_is_found() {
    let valid = stored("serializable");
    let last = valid.transactions.last().unwrap().began;
    let mut tried = 0;
    for (number, transaction) in valid.transactions.iter().enumerate().step_by(5) {
        let committed = transaction.outcome == Outcome::Committed && transaction.ended < last;
        let Some(Append(key, value)) = transaction.operations.iter().find(|one| matches!(one, Append(..)))
        else {
            continue;
        };
        // Some transaction that began after this one had ended appended to the key and was read.
        let began_later = |other: &Value| {
            valid.transactions[writer(&valid, *key, *other)].began > transaction.ended && other != value
        };
        let seen = reads(&valid)
            .iter()
            .any(|read| read.2 == *key && values(&valid, (read.0, read.1)).iter().any(began_later));
        if !committed || !seen {
            continue;
        }
        let mut planted = valid.clone();
        for transaction in planted.transactions.iter_mut() {
            for operation in &mut transaction.operations {
                if let Read(of, values) = operation
                    && of == key
                {
                    values.retain(|other| other != value);
                }
            }
        }
        let findings = check(&planted);
        assert!(!findings.holds(Model::StrictSerializable), "T{number}\n{findings}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn an_append_dropped_from_one_read_is_found() {
    let valid = stored("serializable");
    for (transaction, place, _, length) in reads(&valid).into_iter().filter(|read| read.3 > 1).step_by(9) {
        let mut planted = valid.clone();
        let mut shorter = values(&valid, (transaction, place)).clone();
        shorter.remove(length / 2 - 1);
        set_values(&mut planted, (transaction, place), shorter);
        assert!(!check(&planted).holds(Model::ReadCommitted));
    }
}

#[test]
fn a_read_from_an_old_snapshot_is_found() {
    let valid = stored("serializable");
    let mut tried = 0;
    for (transaction, place, key, length) in reads(&valid).into_iter().filter(|read| read.3 > 0).step_by(5) {
        let seen = values(&valid, (transaction, place)).clone();
        let began = valid.transactions[transaction].began;
        // The newest element that was there for sure when the reader began is hidden from it.
        let sure = |value: &Value| valid.transactions[writer(&valid, key, *value)].ended < began;
        let Some(hidden) = seen.iter().rposition(sure) else { continue };
        let mut planted = valid.clone();
        set_values(&mut planted, (transaction, place), seen[..hidden].to_vec());
        let findings = check(&planted);
        assert!(!findings.holds(Model::StrongSnapshotIsolation), "T{transaction} of {length}\n{findings}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn a_committed_transaction_marked_failed_is_found() {
    let valid = stored("serializable");
    let mut tried = 0;
    for number in (0..valid.transactions.len()).step_by(5) {
        let transaction = &valid.transactions[number];
        let read_by_another = transaction.operations.iter().any(|operation| {
            let Append(key, value) = operation else { return false };
            reads(&valid).iter().any(|read| {
                read.0 != number && read.2 == *key && values(&valid, (read.0, read.1)).contains(value)
            })
        });
        if transaction.outcome != Outcome::Committed || !read_by_another {
            continue;
        }
        let mut planted = valid.clone();
        planted.transactions[number].outcome = Outcome::Failed;
        let findings = check(&planted);
        assert!(findings.found("G1a") && findings.broken == Model::ALL, "T{number}\n{findings}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn registers_run_forward() {
    let access = |began, ended, version, wrote| Access { began, ended, version, value: version * 10, wrote };
    let valid =
        [access(0, 5, 1, true), access(3, 9, 2, true), access(4, 20, 1, false), access(10, 12, 2, false)];
    assert_eq!(check_register(&valid), []);
    let stale = [access(0, 5, 1, true), access(6, 7, 0, false)];
    assert_eq!(check_register(&stale), [RegisterFault::Backwards(stale[0], stale[1])]);
    let backwards = [access(0, 30, 2, true), access(1, 5, 2, false), access(6, 8, 1, false)];
    assert_eq!(check_register(&backwards), [RegisterFault::Backwards(backwards[1], backwards[2])]);
    let future = [access(0, 3, 2, false), access(5, 8, 2, true)];
    assert_eq!(check_register(&future), [RegisterFault::Backwards(future[0], future[1])]);
    let twice = [access(0, 3, 2, true), access(0, 3, 2, true)];
    assert_eq!(check_register(&twice), [RegisterFault::VersionTwice(twice[0], twice[1])]);
    let wrong = [access(0, 3, 2, true), Access { value: 7, ..access(4, 5, 2, false) }];
    assert_eq!(check_register(&wrong), [RegisterFault::WrongValue(wrong[0], wrong[1])]);
}
