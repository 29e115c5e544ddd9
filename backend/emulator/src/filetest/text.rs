//! A filetest's text: cases out of its lines.

use rocfire_arch::{Arch, Family};
use rocfire_isa::WaveSize;

/// What cases run on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The architecture.
    pub arch: Arch,
    /// The size of its wave.
    pub wave: WaveSize,
}

impl Target {
    /// Architectures, and at the end `wave64` if that is not what their kernels usually have.
    fn parse_all(text: &str) -> Result<Vec<Target>, String> {
        let (names, wide) = text.strip_suffix(" wave64").map_or((text, false), |names| (names, true));
        let target = |name: &str| {
            let arch = Arch::parse(name).map_err(|error| error.to_string())?;
            Ok(Target { arch, wave: if wide { WaveSize::Wave64 } else { WaveSize::usual(arch) } })
        };
        names.split_whitespace().map(target).collect()
    }

    /// Lanes of its wave.
    pub fn lanes(self) -> usize {
        match self.wave {
            WaveSize::Wave32 => 32,
            WaveSize::Wave64 => 64,
        }
    }

    /// The word of `s_endpgm`.
    pub fn end(self) -> u32 {
        match self.arch.info().family {
            Family::Rdna3 | Family::Rdna35 | Family::Rdna4 => 0xbfb0_0000,
            _ => 0xbf81_0000,
        }
    }
}

/// A place and its value, as they are written.
pub type Pair = (String, String);

/// Code with the state before it and what is compared after it.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Case {
    /// The line in its file where it begins, from 1.
    pub line: usize,
    /// What it runs on.
    pub targets: Vec<Target>,
    /// What is set before it runs; everything else is zero, EXEC full.
    pub init: Vec<Pair>,
    /// What is compared afterwards; `fault` is the kind of the fault that ends it.
    pub expect: Vec<Pair>,
    /// Its instructions: words, and the text that they disassemble to. Bytes that are no instruction have no text.
    pub code: Vec<(Vec<u32>, String)>,
}

/// A file's cases.
///
/// # Errors
/// The line that is none of a filetest, and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut reader = Reader::default();
    for (number, line) in text.lines().chain([""]).enumerate() {
        reader.line(number + 1, line).map_err(|error| format!("line {}: {error}", number + 1))?;
    }
    Ok(reader.cases)
}

#[derive(Default)]
pub(super) struct Reader {
    pub(super) targets: Vec<Target>,
    given: Vec<Pair>,
    /// The line of the last `given`: one in the next line adds to it.
    given_line: usize,
    /// The case that is not at its end.
    case: Case,
    cases: Vec<Case>,
}

impl Reader {
    pub(super) fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            return self.end_case();
        }
        let mut parts = line.split(';');
        let code = parts.next().unwrap_or_default();
        if !code.trim().is_empty() {
            self.go_on(number)?;
            self.case.code.push(parse_code(code));
        }
        parts.try_for_each(|part| self.directive(number, part))
    }

    fn directive(&mut self, number: usize, text: &str) -> Result<(), String> {
        let (kind, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match kind {
            "target" => {
                self.end_case()?;
                self.targets = Target::parse_all(rest.trim())?;
            }
            "given" => {
                self.end_case()?;
                if self.given_line + 1 != number {
                    self.given.clear();
                }
                self.given_line = number;
                self.given.extend(pairs(rest)?);
            }
            "init" => {
                self.go_on(number)?;
                self.case.init.extend(pairs(rest)?);
            }
            "expect" => {
                self.begin(number);
                self.case.expect.extend(pairs(rest)?);
            }
            _ if !rest.trim().is_empty() && pairs(rest).is_ok() => return Err(format!("`{kind}` is no directive")),
            // A remark.
            _ => {}
        }
        Ok(())
    }

    /// More of a case: of the next one, if this one has its expectations.
    fn go_on(&mut self, number: usize) -> Result<(), String> {
        if !self.case.expect.is_empty() {
            self.end_case()?;
        }
        self.begin(number);
        Ok(())
    }

    fn begin(&mut self, number: usize) {
        if self.case.line == 0 {
            self.case.line = number;
        }
    }

    fn end_case(&mut self) -> Result<(), String> {
        let mut case = std::mem::take(&mut self.case);
        if case == Case::default() {
            return Ok(());
        }
        if case.expect.is_empty() {
            return Err("the case before has no expectation".to_owned());
        }
        if case.code.is_empty() {
            let before = self.cases.last().ok_or("the first case has no code")?;
            case.code.clone_from(&before.code);
        }
        if self.targets.is_empty() {
            return Err("there is no target".to_owned());
        }
        case.targets.clone_from(&self.targets);
        case.init.splice(0..0, self.given.iter().cloned());
        self.cases.push(case);
        Ok(())
    }
}

/// Leading words of eight hexadecimal digits, then the text.
pub(super) fn parse_code(line: &str) -> (Vec<u32>, String) {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.split_whitespace().next().filter(|first| first.len() == 8)
        && let Ok(word) = u32::from_str_radix(first, 16)
    {
        words.push(word);
        rest = rest[8..].trim_start();
    }
    (words, rest.trim_end().to_owned())
}

/// Places and their values; a range or a list becomes single ones.
fn pairs(text: &str) -> Result<Vec<Pair>, String> {
    let mut all = Vec::new();
    for word in text.split_whitespace() {
        let (place, value) = word.split_once('=').ok_or_else(|| format!("`{word}` has no `=`"))?;
        if value.contains(',') {
            for (i, value) in value.split(',').enumerate() {
                let place = nth(place, i).ok_or_else(|| format!("`{place}` has no place after it"))?;
                all.push((place, value.to_owned()));
            }
        } else if let Some((first, last)) = registers(place) {
            all.extend((first..=last).map(|register| (format!("{}{register}", &place[..1]), value.to_owned())));
        } else {
            all.push((place.to_owned(), value.to_owned()));
        }
    }
    Ok(all)
}

/// `3` and `7` of `v3-7`.
fn registers(place: &str) -> Option<(usize, usize)> {
    let (first, last) = place.get(1..)?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The `i`-th place from one on: the lane if it names one, else the dword or the register.
fn nth(place: &str, i: usize) -> Option<String> {
    if let Some((whole, start)) = place.split_once('.') {
        let bytes_or_lanes = if matches!(whole, "mem" | "lds") { 4 } else { 1 };
        return Some(format!("{whole}.{}", start.parse::<usize>().ok()? + i * bytes_or_lanes));
    }
    let (file, register) = place.split_at_checked(1).filter(|(file, _)| matches!(*file, "s" | "v" | "a"))?;
    let Some(range) = register.strip_prefix('[').and_then(|range| range.strip_suffix(']')) else {
        return Some(format!("{file}{}", register.parse::<usize>().ok()? + i));
    };
    let (first, last) = range.split_once(':')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    let step = i * (last + 1).checked_sub(first)?;
    Some(format!("{file}[{}:{}]", first + step, last + step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(place: &str, value: &str) -> Pair {
        (place.to_owned(), value.to_owned())
    }

    fn cases(text: &str) -> Vec<Case> {
        parse(&format!("; target gfx942\n{text}")).unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(text: &str) -> String {
        parse(text).map(|cases| format!("{cases:?}")).unwrap_err()
    }

    #[test]
    fn an_expectation_behind_code_ends_the_case() {
        let cases = cases("bf810000 s_a ; init s0=1 ; expect s1=2 ; why\nbf810001 s_b ; expect s1=3\n; expect s2=4\n");
        let [a, b] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!(
            (a.line, &a.code[..], &a.init[..]),
            (2, &[(vec![0xbf81_0000], "s_a".to_owned())][..], &[pair("s0", "1")][..])
        );
        assert_eq!((b.line, &b.code[0].1[..], &b.init[..]), (3, "s_b", &[][..]));
        assert_eq!((&a.expect[..], &b.expect[..]), (&[pair("s1", "2")][..], &[pair("s1", "3"), pair("s2", "4")][..]));
    }

    #[test]
    fn a_given_state_holds_until_the_next_and_init_adds_to_it() {
        let cases = cases(
            "; given s0=1\n; given s4=4\ns_a ; expect s1=1\n\ns_b ; init s0=2 ; expect s1=2\n; given\ns_c ; expect s1=3",
        );
        let inits: Vec<&[Pair]> = cases.iter().map(|case| &case.init[..]).collect();
        let given = [pair("s0", "1"), pair("s4", "4")];
        assert_eq!(inits, [&given[..], &[&given[..], &[pair("s0", "2")]].concat(), &[]]);
    }

    #[test]
    fn a_case_without_code_runs_the_code_of_the_one_before() {
        let cases =
            cases("s_a\ns_b\n; init s0=1 ; expect s1=1\n; a remark\n; init s0=2\n; expect s1=2\n\n; expect s1=0\n");
        assert_eq!(cases.len(), 3);
        assert!(cases.iter().all(|case| case.code.len() == 2));
        assert_eq!(cases.iter().map(|case| case.line).collect::<Vec<_>>(), [2, 6, 9]);
    }

    #[test]
    fn ranges_and_lists_stand_for_places_of_one_value() {
        let all = pairs("v3-5=7 s8=1,2 v[4:5].2=3,4 mem.8=5,6 a[0:1]=8,9 v3.0-15=lane").unwrap();
        let all: Vec<String> = all.iter().map(|(place, value)| format!("{place}={value}")).collect();
        let expected = "v3=7 v4=7 v5=7 s8=1 s9=2 v[4:5].2=3 v[4:5].3=4 mem.8=5 mem.12=6 a[0:1]=8 a[2:3]=9 v3.0-15=lane";
        assert_eq!(all.join(" "), expected);
    }

    #[test]
    fn a_target_holds_for_what_follows_and_may_be_several() {
        let cases = cases("s_a ; expect s0=1\n; target gfx1100 gfx1201 wave64\ns_b ; expect s0=1\n");
        let names = |case: &Case| case.targets.iter().map(|target| target.arch.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (names(&cases[0]), names(&cases[1])),
            (vec!["gfx942".into()], vec!["gfx1100".into(), "gfx1201".into()])
        );
        assert!(cases[1].targets.iter().all(|target| target.wave == WaveSize::Wave64));
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        for (text, expected) in [
            ("s_a ; expect s0=1", "line 2: there is no target"),
            ("; target gfx942\n; expect s0=1", "line 3: the first case has no code"),
            ("; target gfx942\ns_a ; init s0=1\n\n", "line 3: the case before has no expectation"),
            ("; target gfx942\ns_a\n; given s0=1", "line 3: the case before has no expectation"),
            ("; target gfx942\ns_a ; expect s0", "line 2: `s0` has no `=`"),
            ("; target gfx942\ns_a ; expct s0=1", "line 2: `expct` is no directive"),
            ("; target gfx942\ns_a ; expect scc=1,0", "line 2: `scc` has no place after it"),
        ] {
            assert_eq!(error(text), expected);
        }
        assert!(error("; target gfx0").starts_with("line 1: "));
    }
}
