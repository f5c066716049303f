//! Feature gates: which optional behaviour is on.
//!
//! Names, defaults and stages are upstream's (spec/admission.md 3), so a `--feature-gates` value written for OpenKruise
//! means the same here. What our own install turns on besides (ruling G-03) are chart values, not defaults.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// How far a gate has matured; `AllAlpha` and `AllBeta` switch by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for.
    Alpha,
    /// Usually on.
    Beta,
}

/// Declares [`Gate`] from one table, so that a gate cannot miss its name, stage or default.
macro_rules! gates {
    ($($gate:ident $name:literal $stage:ident $default:literal $doc:literal,)*) => {
        /// One optional behaviour.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Gate {
            $(#[doc = $doc] $gate,)*
        }

        impl Gate {
            /// Every gate there is.
            pub const ALL: &'static [Self] = &[$(Self::$gate,)*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$gate => $name,)* }
            }

            /// How far it has matured.
            pub const fn stage(self) -> Stage {
                match self { $(Self::$gate => Stage::$stage,)* }
            }

            /// Whether it is on when nobody says anything.
            pub const fn is_on_by_default(self) -> bool {
                match self { $(Self::$gate => $default,)* }
            }
        }
    };
}

gates! {
    PodWebhook "PodWebhook" Beta true "Pods pass our admission at all.",
    KruiseDaemon "KruiseDaemon" Beta true "Whatever needs the node daemon: recreate requests, image pulls, probes.",
    DaemonWatchingPod "DaemonWatchingPod" Beta true "The daemon reads the pods of its own node.",
    CloneSetShortHash "CloneSetShortHash" Alpha false "CloneSet labels pods with the hash alone.",
    KruisePodReadiness "KruisePodReadinessGate" Alpha false "Every pod gets our readiness gate, not only those of our kinds.",
    PreDownloadImageForInPlaceUpdate "PreDownloadImageForInPlaceUpdate" Alpha false "Images are pulled ahead of an in-place update.",
    CloneSetPartitionRollback "CloneSetPartitionRollback" Alpha false "A grown partition takes updated pods back.",
    ResourcesDeletionProtection "ResourcesDeletionProtection" Beta false "Labelled objects cannot be deleted.",
    WorkloadSpread "WorkloadSpread" Beta true "WorkloadSpread, admission and controller.",
    PodUnavailableBudgetDelete "PodUnavailableBudgetDeleteGate" Beta true "Budgets guard deletion and eviction.",
    PodUnavailableBudgetUpdate "PodUnavailableBudgetUpdateGate" Alpha false "Budgets guard in-place updates.",
    TemplateNoDefaults "TemplateNoDefaults" Alpha false "Admission leaves templates without defaults.",
    InPlaceUpdateEnvFromMetadata "InPlaceUpdateEnvFromMetadata" Beta true "Environment read from labels and annotations updates in place.",
    StatefulSetAutoDeletePvc "StatefulSetAutoDeletePVC" Beta true "Claims of a StatefulSet can go with their pod or set.",
    SidecarSetPatchPodMetadataDefaultsAllowed "SidecarSetPatchPodMetadataDefaultsAllowed" Alpha false "A SidecarSet may patch pod metadata without a whitelist.",
    SidecarTerminator "SidecarTerminator" Alpha false "Sidecars of finished jobs are stopped.",
    PodProbeMarker "PodProbeMarkerGate" Beta true "Custom probes.",
    PreDownloadImageForDaemonSetUpdate "PreDownloadImageForDaemonSetUpdate" Alpha false "Images are pulled ahead of a DaemonSet update.",
    CloneSetEventHandlerOptimization "CloneSetEventHandlerOptimization" Alpha false "Pod changes that cannot matter do not wake a CloneSet.",
    PreparingUpdateAsUpdate "PreparingUpdateAsUpdate" Alpha false "A pod that prepares its update counts as updated when scaling.",
    ImagePullJob "ImagePullJobGate" Alpha false "Image pull controllers.",
    ResourceDistribution "ResourceDistributionGate" Beta false "ResourceDistribution.",
    DeletionProtectionForCrdCascading "DeletionProtectionForCRDCascadingGate" Alpha false "Deletion protection of CRDs that still have objects.",
    EnhancedLivenessProbe "EnhancedLivenessProbe" Alpha false "Liveness probes run by the daemon.",
    RecreatePodWhenChangeVctInCloneSet "RecreatePodWhenChangeVCTInCloneSetGate" Alpha false "A changed claim template recreates pods.",
    StatefulSetStartOrdinal "StatefulSetStartOrdinal" Alpha false "A StatefulSet may start at another ordinal than 0.",
    PodIndexLabel "PodIndexLabel" Beta true "Pods of a StatefulSet carry their ordinal as a label.",
    EnableExternalCerts "EnableExternalCerts" Alpha false "Certificates come from outside.",
    StatefulSetAutoResizePvc "StatefulSetAutoResizePVCGate" Alpha false "Claims grow with their template.",
    ForceDeleteTimeoutExpectation "ForceDeleteTimeoutExpectationGate" Alpha false "Writes that never come back are given up.",
    InPlaceWorkloadVerticalScaling "InPlaceWorkloadVerticalScaling" Alpha false "Workloads resize pods in place.",
    EnablePodProbeMarkerOnServerless "EnablePodProbeMarkerOnServerless" Alpha false "Probes are handed to serverless pods as an annotation.",
    EnableSortSidecarContainerByName "EnableSortSidecarContainerByName" Alpha false "Injected containers are sorted by name.",
    InPlacePodVerticalScaling "InPlacePodVerticalScaling" Alpha false "Budgets tell a resize from other updates.",
    DefaultHostNetworkHostPortsInPodTemplates "DefaultHostNetworkHostPortsInPodTemplates" Alpha false "Host ports in templates get their default.",
    DaemonSetPruneIneligibleNodes "DaemonSetPruneIneligibleNodes" Alpha false "Pods on nodes that no longer fit are left out of maxUnavailable.",
}

/// Gates that cannot work without another one: if the first is off, the others are forced off.
const NEEDED_BY: &[(Gate, &[Gate])] = &[
    (
        Gate::PodWebhook,
        &[
            Gate::KruisePodReadiness,
            Gate::PodUnavailableBudgetDelete,
            Gate::PodUnavailableBudgetUpdate,
            Gate::WorkloadSpread,
            Gate::SidecarSetPatchPodMetadataDefaultsAllowed,
            Gate::EnhancedLivenessProbe,
            Gate::EnablePodProbeMarkerOnServerless,
        ],
    ),
    (
        Gate::KruiseDaemon,
        &[
            Gate::PreDownloadImageForInPlaceUpdate,
            Gate::PreDownloadImageForDaemonSetUpdate,
            Gate::DaemonWatchingPod,
            Gate::InPlaceUpdateEnvFromMetadata,
            Gate::PodProbeMarker,
            Gate::SidecarTerminator,
            Gate::ImagePullJob,
            Gate::EnhancedLivenessProbe,
        ],
    ),
    (Gate::ResourcesDeletionProtection, &[Gate::DeletionProtectionForCrdCascading]),
];

/// Gates that make no sense without another one: each forces the second on.
const FORCES_ON: &[(Gate, Gate)] = &[
    (Gate::PreDownloadImageForInPlaceUpdate, Gate::ImagePullJob),
    (Gate::PreDownloadImageForDaemonSetUpdate, Gate::ImagePullJob),
];

/// Gates of kinds and duties that are not built here yet. Whoever turns one on relies on a guard that is not there.
const NOT_SERVED: &[Gate] = &[
    Gate::WorkloadSpread,
    Gate::PodUnavailableBudgetDelete,
    Gate::PodUnavailableBudgetUpdate,
    Gate::StatefulSetAutoDeletePvc,
    Gate::SidecarSetPatchPodMetadataDefaultsAllowed,
    Gate::PreDownloadImageForDaemonSetUpdate,
    Gate::ResourceDistribution,
    Gate::DeletionProtectionForCrdCascading,
    Gate::EnhancedLivenessProbe,
    Gate::StatefulSetStartOrdinal,
    Gate::PodIndexLabel,
    Gate::StatefulSetAutoResizePvc,
    Gate::EnablePodProbeMarkerOnServerless,
    Gate::EnableSortSidecarContainerByName,
    Gate::InPlacePodVerticalScaling,
    Gate::DaemonSetPruneIneligibleNodes,
];

/// Why a `--feature-gates` value is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No gate has this name.
    #[error("there is no feature gate {name:?}{}", near_names(.near))]
    Unknown {
        /// What was given.
        name: String,
        /// Gates whose names look like it.
        near: Vec<&'static str>,
    },
    /// An entry is not `Name=true` or `Name=false`.
    #[error("feature gate {0:?} is not of the form Name=true or Name=false")]
    Malformed(String),
}

fn near_names(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

/// Which gates are on in this process. Cheap to copy; never changes after start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gates(u64);

impl Gates {
    /// Upstream's defaults.
    pub fn defaults() -> Self {
        Self::resolve(&BTreeMap::new(), None)
    }

    /// Reads a `--feature-gates` value such as `AllAlpha=true,PodWebhook=false`.
    ///
    /// `custom_resources` is the value of `CUSTOM_RESOURCE_ENABLE`, an old setting: where it is given and does not list
    /// SidecarSet, pods pass no admission unless the gate is named.
    pub fn parse(text: &str, custom_resources: Option<&str>) -> Result<Self, Error> {
        let mut asked = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let malformed = || Error::Malformed(entry.to_owned());
            let (name, value) = entry.split_once('=').ok_or_else(malformed)?;
            let value = parse_bool(value.trim()).ok_or_else(malformed)?;
            asked.insert(Switch::from_name(name.trim())?, value);
        }
        Ok(Self::resolve(&asked, custom_resources))
    }

    /// Whether `gate` is on.
    pub fn is_on(self, gate: Gate) -> bool {
        self.0 & bit(gate) != 0
    }

    /// What somebody has turned on without any effect here. Defaults are nobody's wish.
    pub fn in_vain(self) -> impl Iterator<Item = Gate> {
        NOT_SERVED.iter().copied().filter(move |it| self.is_on(*it) && !it.is_on_by_default())
    }

    /// The same gates with one switched, cascades not applied: for tests.
    #[must_use]
    pub fn with(self, gate: Gate, on: bool) -> Self {
        Self(if on { self.0 | bit(gate) } else { self.0 & !bit(gate) })
    }

    fn resolve(asked: &BTreeMap<Switch, bool>, custom_resources: Option<&str>) -> Self {
        let mut gates = Self(0);
        for &gate in Gate::ALL {
            let group = match gate.stage() {
                Stage::Alpha => Switch::AllAlpha,
                Stage::Beta => Switch::AllBeta,
            };
            let on = asked.get(&Switch::One(gate)).or_else(|| asked.get(&group)).copied();
            gates = gates.with(gate, on.unwrap_or_else(|| default_of(gate, custom_resources)));
        }
        for (needed, dependents) in NEEDED_BY {
            if !gates.is_on(*needed) {
                gates = dependents.iter().fold(gates, |gates, it| gates.with(*it, false));
            }
        }
        for (gate, forced) in FORCES_ON {
            if gates.is_on(*gate) {
                gates = gates.with(*forced, true);
            }
        }
        gates
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self::defaults()
    }
}

impl FromStr for Gates {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text, None)
    }
}

impl fmt::Display for Gates {
    /// The complete list, in the form that [`Gates::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<_> = Gate::ALL.iter().map(|it| format!("{}={}", it.name(), self.is_on(*it))).collect();
        f.write_str(&list.join(","))
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Gate::ALL.iter().filter(|it| self.is_on(**it))).finish()
    }
}

fn bit(gate: Gate) -> u64 {
    const { assert!(Gate::ALL.len() <= 64, "the set is one u64") };
    1 << gate as u64
}

fn default_of(gate: Gate, custom_resources: Option<&str>) -> bool {
    let listed = custom_resources.map(str::trim).filter(|it| !it.is_empty());
    match (gate, listed) {
        (Gate::PodWebhook, Some(list)) => list.split(',').any(|it| it == "SidecarSet"),
        _ => gate.is_on_by_default(),
    }
}

/// The spellings that Go's flag library accepts.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// What an entry can name: one gate, or all of a stage. A gate's own entry wins over its stage's, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Switch {
    AllAlpha,
    AllBeta,
    One(Gate),
}

impl Switch {
    fn from_name(name: &str) -> Result<Self, Error> {
        match name {
            "AllAlpha" => return Ok(Self::AllAlpha),
            "AllBeta" => return Ok(Self::AllBeta),
            _ => {}
        }
        let found = Gate::ALL.iter().find(|it| it.name() == name);
        found
            .map(|it| Self::One(*it))
            .ok_or_else(|| Error::Unknown { name: name.to_owned(), near: near(name) })
    }
}

/// Up to three gates a mistyped name may have meant: few edits away, or one name inside the other.
fn near(name: &str) -> Vec<&'static str> {
    // Half of the names end in "Gate" and half do not: nobody remembers which.
    let bare = |it: &str| it.to_lowercase().trim_end_matches("gate").to_owned();
    let wanted = bare(name);
    let all = Gate::ALL.iter().map(|it| it.name()).chain(["AllAlpha", "AllBeta"]);
    let mut found: Vec<_> = all
        .filter_map(|it| {
            let candidate = bare(it);
            let edits = edits(&wanted, &candidate);
            let inside = wanted.len() > 3 && (candidate.contains(&wanted) || wanted.contains(&candidate));
            (inside || edits <= candidate.len() / 4).then_some((edits, it))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().take(3).map(|(_, it)| it).collect()
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(text: &str, gate: Gate) -> bool {
        Gates::parse(text, None).unwrap().is_on(gate)
    }

    #[test]
    fn what_is_asked_for_and_not_there_is_known_and_defaults_are_not_asked_for() {
        let in_vain = |text: &str| Gates::parse(text, None).unwrap().in_vain().collect::<Vec<_>>();
        assert!(in_vain("").is_empty() && in_vain("CloneSetShortHash=true").is_empty());
        assert_eq!(
            in_vain("PodUnavailableBudgetUpdateGate=true,WorkloadSpread=true"),
            [Gate::PodUnavailableBudgetUpdate]
        );
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let on: Vec<_> =
            Gate::ALL.iter().filter(|it| Gates::defaults().is_on(**it)).map(|it| it.name()).collect();
        let expected = [
            "PodWebhook",
            "KruiseDaemon",
            "DaemonWatchingPod",
            "WorkloadSpread",
            "PodUnavailableBudgetDeleteGate",
            "InPlaceUpdateEnvFromMetadata",
            "StatefulSetAutoDeletePVC",
            "PodProbeMarkerGate",
            "PodIndexLabel",
        ];
        assert_eq!(on, expected);
    }

    #[test]
    fn all_alpha_and_all_beta_switch_by_stage_and_a_name_wins_in_any_order() {
        assert!(on("AllAlpha=true", Gate::CloneSetShortHash));
        assert!(!on("AllAlpha=true", Gate::ResourcesDeletionProtection));
        assert!(on("AllBeta=true", Gate::ResourcesDeletionProtection));
        assert!(!on("AllBeta=false", Gate::PodIndexLabel));
        for text in ["AllAlpha=true,CloneSetShortHash=false", "CloneSetShortHash=false, AllAlpha=true"] {
            assert!(!on(text, Gate::CloneSetShortHash));
        }
        let stock = "AllAlpha=true,AllBeta=true,EnableExternalCerts=false,TemplateNoDefaults=false";
        let off: Vec<_> = Gate::ALL.iter().filter(|it| !on(stock, **it)).collect();
        assert_eq!(off, [&Gate::TemplateNoDefaults, &Gate::EnableExternalCerts]);
    }

    #[test]
    fn a_gate_that_is_off_takes_those_that_need_it_along() {
        for (needed, dependents) in NEEDED_BY {
            let text = format!("AllAlpha=true,AllBeta=true,{}=false", needed.name());
            for it in *dependents {
                assert!(!on(&text, *it), "{text} leaves {it:?} on");
            }
        }
        assert!(on("AllBeta=true,PodWebhook=false", Gate::ResourcesDeletionProtection));
    }

    #[test]
    fn pre_download_turns_the_pull_jobs_on_unless_the_daemon_is_off() {
        assert!(on("PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=false", Gate::ImagePullJob));
        assert!(on("PreDownloadImageForDaemonSetUpdate=true", Gate::ImagePullJob));
        assert!(!on("PreDownloadImageForDaemonSetUpdate=true,KruiseDaemon=false", Gate::ImagePullJob));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_near_names() {
        let error = Gates::parse("ImagePulJob=true", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no feature gate \"ImagePulJob\"; did you mean ImagePullJobGate?"
        );
        let error = Gates::parse("WorkloadSpreads=true", None).unwrap_err();
        assert!(error.to_string().contains("WorkloadSpread?"), "{error}");
        let error = Gates::parse("Bananas=true", None).unwrap_err();
        assert_eq!(error.to_string(), "there is no feature gate \"Bananas\"");
        assert_eq!(Gates::parse("PodWebhook", None), Err(Error::Malformed("PodWebhook".into())));
        assert_eq!(Gates::parse("PodWebhook=on", None), Err(Error::Malformed("PodWebhook=on".into())));
    }

    #[test]
    fn the_old_list_of_kinds_moves_only_the_default() {
        let parse = |text, list| Gates::parse(text, Some(list)).unwrap().is_on(Gate::PodWebhook);
        assert!(!parse("", "CloneSet,StatefulSet"));
        assert!(parse("", "CloneSet,SidecarSet"));
        assert!(parse("PodWebhook=true", "CloneSet"));
        assert!(parse("", " "));
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in ["", "AllAlpha=true", "PodWebhook=false", "AllBeta=false"] {
            let gates: Gates = text.parse().unwrap();
            assert_eq!(gates.to_string().parse(), Ok(gates));
        }
    }
}
