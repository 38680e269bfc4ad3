//! Commands at random, from a seed that brings them back.

/// A sequence of numbers that its seed decides (splitmix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap();
        usize::try_from(self.next() % count).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A shell script that goes on until it is ended.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    /// How many processes `sleep MARK` there are once all of it runs.
    pub(crate) sleeps: usize,
    /// Whether one of them leaves the session of the command.
    pub(crate) daemonises: bool,
}

/// What a script starts beside its last line: the text, how many `sleep`s, whether it daemonises.
const PARTS: [(&str, usize, bool); 10] = [
    ("sleep MARK &", 1, false),
    // It holds none of the pipes.
    ("sleep MARK </dev/null >/dev/null 2>&1 &", 1, false),
    ("(sleep MARK & sleep MARK) &", 2, false),
    (
        "(trap '' TERM HUP INT; sleep MARK & exec sleep MARK) &",
        2,
        false,
    ),
    ("nohup sleep MARK >/dev/null 2>&1 &", 1, false),
    // Nothing but its words says where it comes from.
    ("env -i PATH=\"$PATH\" sleep MARK &", 1, false),
    ("setsid sleep MARK &", 1, true),
    // Its parent is gone at once.
    ("(setsid sleep MARK >/dev/null 2>&1 &)", 1, true),
    (
        "(setsid sh -c 'trap \"\" TERM HUP INT; sleep MARK & sleep MARK' &)",
        2,
        true,
    ),
    (
        "(cd / && env -i PATH=\"$PATH\" setsid sleep MARK </dev/null >/dev/null 2>&1 &)",
        1,
        true,
    ),
];

const FIRSTS: [&str; 2] = ["", "trap '' TERM HUP INT\n"];
const LASTS: [&str; 3] = ["sleep MARK", "exec sleep MARK", "sleep MARK & wait"];

impl Script {
    /// One to four parts, and a last line that goes on.
    pub(crate) fn new(random: &mut Random, mark: &str) -> Self {
        let mut script = Self {
            text: (*random.pick(&FIRSTS)).to_owned(),
            sleeps: 1,
            daemonises: false,
        };
        for _ in 0..=random.below(4) {
            let (text, sleeps, daemonises) = random.pick(&PARTS);
            script.text.push_str(text);
            script.text.push('\n');
            script.sleeps += sleeps;
            script.daemonises |= daemonises;
        }
        script.text.push_str(random.pick::<&str>(&LASTS));
        script.text = script.text.replace("MARK", mark);
        script
    }
}

#[test]
fn a_seed_brings_its_scripts_back() {
    let scripts = |seed| -> Vec<String> {
        let mut random = Random::new(seed);
        (0..50)
            .map(|_| Script::new(&mut random, "1.5").text)
            .collect()
    };
    assert_eq!(scripts(7), scripts(7));
    let mut all = scripts(7);
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 30, "only {} different ones of 50", all.len());
}
