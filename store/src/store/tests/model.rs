//! Any sequence of operations does what a map from keys to bodies would.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::dir::Resolver;

#[derive(Debug, Clone)]
enum Step {
    Put(String, Vec<u8>),
    Create(String),
    Delete(String),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || "[ab/.]{1,5}";
    let step = prop_oneof![
        6 => (name(), "[xyz]{0,3}").prop_map(|(k, b)| Step::Put(k, b.into_bytes())),
        2 => name().prop_map(Step::Create),
        4 => name().prop_map(Step::Delete),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..40)
}

/// What NFS and old kernels do without: unnamed temporary files and `openat2`.
fn without_linux_extras(at: &mut Scratch) {
    let volume = &mut at.store.volume;
    volume.unnamed_files = false;
    volume.root.set_resolver(Resolver::Walk);
    volume.control.set_resolver(Resolver::Walk);
}

fn run(mode: MetadataMode, steps: &[Step], prepare: fn(&mut Scratch)) {
    let mut at = Scratch::relaxed(mode);
    prepare(&mut at);
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in steps {
        match step.clone() {
            Step::Put(name, body) => {
                put(&at.store, &name, &body);
                model.insert(name, body);
            }
            Step::Create(name) => {
                let outcome = put_if(&at.store, &name, b"c", &Precondition::Absent);
                assert_eq!(outcome.is_ok(), !model.contains_key(&name), "{name}");
                model.entry(name).or_insert_with(|| b"c".to_vec());
            }
            Step::Delete(name) => {
                let existed = model.remove(&name).is_some();
                assert_eq!(delete(&at.store, &name), existed, "{name}");
                assert_eq!(get(&at.store, &name), None);
            }
            Step::Reopen => {
                at = at.reopen();
                prepare(&mut at);
            }
        }
        let expected: Vec<_> = model.keys().cloned().collect();
        assert_eq!(keys(&at.store), expected, "{step:?}");
    }
    for (name, body) in &model {
        assert_eq!(get(&at.store, name).as_ref(), Some(body), "{name}");
    }
    for name in model.keys() {
        assert!(delete(&at.store, name), "{name}");
    }
    at.store.delete_bucket(&bucket()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn xattr_mode_is_a_map(steps in steps()) {
        run(MetadataMode::Xattr, &steps, |_| ());
    }

    #[test]
    fn sidecar_mode_is_a_map(steps in steps()) {
        run(MetadataMode::Sidecar, &steps, |_| ());
    }

    #[test]
    fn both_are_without_linux_extras(steps in steps(), sidecar in any::<bool>()) {
        run(BOTH[usize::from(sidecar)], &steps, without_linux_extras);
    }
}
