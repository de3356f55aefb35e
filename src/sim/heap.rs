//! Timers: an indexed four-way heap. Every slot holds at most one moment,
//! which can be moved, so that no stale event is ever queued or popped.

/// No place in the heap.
const ABSENT: u32 = u32::MAX;
/// Children of an entry: four share a cache line.
const WAYS: usize = 4;

/// Slots ordered by moment, ties by slot.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    entries: Vec<(f64, u32)>,
    place: Vec<u32>,
}

impl Heap {
    /// A heap for `slots` timers, none of them set.
    pub fn new(slots: usize) -> Self {
        Self {
            entries: Vec::with_capacity(slots),
            place: vec![ABSENT; slots],
        }
    }

    /// The earliest moment and its slot.
    pub fn first(&self) -> Option<(f64, u32)> {
        self.entries.first().copied()
    }

    /// The moment that a slot is set to.
    pub fn moment(&self, slot: u32) -> Option<f64> {
        let place = self.place[slot as usize];
        self.entries.get(place as usize).map(|entry| entry.0)
    }

    /// How many timers are set.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a slot's moment, or moves it.
    #[inline]
    pub fn set(&mut self, slot: u32, moment: f64) {
        let place = self.place[slot as usize];
        if place == ABSENT {
            self.entries.push((moment, slot));
            self.up(self.entries.len() - 1, (moment, slot));
        } else {
            let place = place as usize;
            if before((moment, slot), self.entries[place]) {
                self.up(place, (moment, slot));
            } else {
                self.down(place, (moment, slot));
            }
        }
    }

    /// Clears a slot, if it is set.
    #[inline]
    pub fn clear(&mut self, slot: u32) {
        let place = self.place[slot as usize];
        if place == ABSENT {
            return;
        }
        self.place[slot as usize] = ABSENT;
        let place = place as usize;
        let Some(last) = self.entries.pop() else {
            return;
        };
        if place == self.entries.len() {
            return;
        }
        if place > 0 && before(last, self.entries[(place - 1) / WAYS]) {
            self.up(place, last);
        } else {
            self.down(place, last);
        }
    }

    #[inline]
    fn up(&mut self, mut place: usize, entry: (f64, u32)) {
        while place > 0 {
            let parent = (place - 1) / WAYS;
            let above = self.entries[parent];
            if !before(entry, above) {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, entry);
    }

    #[inline]
    fn down(&mut self, mut place: usize, entry: (f64, u32)) {
        loop {
            let first = place * WAYS + 1;
            let Some(children) = self
                .entries
                .get(first..self.entries.len().min(first + WAYS))
                .filter(|c| !c.is_empty())
            else {
                break;
            };
            let (mut least, mut child) = (children[0], first);
            for (i, &other) in children.iter().enumerate().skip(1) {
                if before(other, least) {
                    (least, child) = (other, first + i);
                }
            }
            if !before(least, entry) {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: (f64, u32)) {
        self.entries[place] = entry;
        self.place[entry.1 as usize] = place as u32;
    }
}

#[inline]
fn before(a: (f64, u32), b: (f64, u32)) -> bool {
    a.0 < b.0 || (a.0 == b.0 && a.1 < b.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list, whatever is set, moved and cleared.
        #[test]
        fn the_first_is_the_earliest(changes in prop::collection::vec((0u32..40, prop::option::of(0u32..20)), 1..400)) {
            let mut heap = Heap::new(40);
            let mut plain: Vec<Option<f64>> = vec![None; 40];
            for (slot, moment) in changes {
                match moment {
                    Some(m) => heap.set(slot, f64::from(m)),
                    None => heap.clear(slot),
                }
                plain[slot as usize] = moment.map(f64::from);
                let expected = plain
                    .iter()
                    .enumerate()
                    .filter_map(|(i, m)| m.map(|m| (m, i as u32)))
                    .min_by(|a, b| a.partial_cmp(b).expect("numbers"));
                prop_assert_eq!(heap.first(), expected);
                prop_assert_eq!(heap.len(), plain.iter().flatten().count());
            }
        }
    }
}
