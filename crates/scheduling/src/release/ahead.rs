//! What a release waits for besides its waves: images, and the releases of other objects.

/// The CloneSet's own pre-download settings, resolved on N (REL-11).
///
/// One ImagePullJob per target does it for the fleet, with the slots of IPJ-1; members are told not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreDownload {
    /// Updated pods over the fleet that must be well before images are pulled for the others.
    pub min_updated_ready: u64,
}

/// Objects with no more pods than this pull nothing ahead, as in one cluster.
const FEW_PODS: u64 = 3;

impl PreDownload {
    /// Whether the images are to be pulled now. `updated_ready` counts available pods, which are ready for certain.
    pub fn is_due(&self, population: u64, updated_ready: u64) -> bool {
        population > FEW_PODS && updated_ready >= self.min_updated_ready
    }
}

/// An object whose release may have to wait for another one's (`fleet.kruise.io/after`, SC-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordered<'a> {
    /// Its name, as `after` of another writes it.
    pub name: &'a str,
    /// The object it comes after.
    pub after: Option<&'a str>,
    /// Whether it has a new template that is not released everywhere.
    pub is_changing: bool,
}

/// Whether a new template may be taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It may.
    Free,
    /// The object at this place comes first.
    After(usize),
    /// The objects wait for one another in a ring: none of them does, or none would ever be released.
    Ring,
}

/// Whose turn it is, for every object. One that waits for something unknown, or for something that is not changing,
/// is free.
pub fn turns(objects: &[Ordered<'_>]) -> Vec<Turn> {
    let place_of = |name: &str| objects.iter().position(|it| it.name == name);
    let next: Vec<Option<usize>> = objects.iter().map(|it| it.after.and_then(place_of)).collect();
    let turn = |place: usize| {
        let mut at = place;
        for _ in 0..objects.len() {
            let Some(other) = next[at] else { break };
            if other == place {
                return Turn::Ring;
            }
            at = other;
        }
        match next[place] {
            Some(other) if objects[other].is_changing => Turn::After(other),
            _ => Turn::Free,
        }
    };
    (0..objects.len()).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel_11_images_are_pulled_for_more_than_three_pods_once_enough_are_well() {
        let wish = PreDownload { min_updated_ready: 2 };
        assert!(!wish.is_due(3, 3));
        assert!(!wish.is_due(4, 1));
        assert!(wish.is_due(4, 2));
        assert!(PreDownload::default().is_due(4, 0));
    }

    #[test]
    fn sc_5_one_object_waits_for_the_release_of_another_and_a_ring_for_nobody() {
        let object = |name, after, is_changing| Ordered { name, after, is_changing };
        let turn = |objects: &[Ordered<'_>]| turns(objects);
        assert_eq!(
            turn(&[object("app", Some("sidecar"), true), object("sidecar", None, true)]),
            [Turn::After(1), Turn::Free]
        );
        assert_eq!(
            turn(&[object("app", Some("sidecar"), true), object("sidecar", None, false)]),
            [Turn::Free, Turn::Free]
        );
        assert_eq!(turn(&[object("app", Some("nobody"), true)]), [Turn::Free]);
        assert_eq!(turn(&[object("app", Some("app"), true)]), [Turn::Ring]);
        let ring = [
            object("a", Some("b"), true),
            object("b", Some("c"), true),
            object("c", Some("a"), true),
            object("d", Some("a"), true),
        ];
        assert_eq!(turn(&ring), [Turn::Ring, Turn::Ring, Turn::Ring, Turn::After(0)]);
    }
}
