//! Numbers as the platform's event files hold them.

use std::fmt::Write as _;

/// Appends `value` as Python's `repr` writes it.
///
/// That is the shortest text that reads back as the same number: positional from 0.0001 up to
/// below 1e16, else with an exponent that has a sign and at least two digits.
pub(crate) fn push(text: &mut String, value: f64) {
    if value.is_nan() {
        return text.push_str("nan");
    }
    if value.is_infinite() {
        return text.push_str(if value > 0.0 { "inf" } else { "-inf" });
    }
    // The shortest text is what the JSON writer makes too, faster than the formatter of the standard
    // library. Where it has an exponent is another matter, and so is one number in some millions:
    // see below. The tests hold all of it against Python itself.
    let mut buffer = [0; 32];
    let mut free = buffer.as_mut_slice();
    // It needs 24 bytes at the most.
    drop(serde_json::to_writer(&mut free, &value));
    let length = 32 - free.len();
    let shortest = buffer.get(..length).unwrap_or_default();
    let shortest = std::str::from_utf8(shortest).unwrap_or_default();
    let magnitude = value.abs();
    let start = text.len();
    let exponent = match (1e-4..1e16).contains(&magnitude) || magnitude == 0.0 {
        true => {
            text.push_str(shortest);
            None
        }
        false => Some(push_mantissa(text, shortest)),
    };
    if let Some(digit) = even_digit_of_a_tie(text, start, exponent.unwrap_or_default(), value) {
        text.pop();
        text.push(digit);
    }
    if let Some(exponent) = exponent {
        let sign = if exponent < 0 { '-' } else { '+' };
        text.push('e');
        text.push(sign);
        let exponent = exponent.unsigned_abs();
        if exponent < 10 {
            text.push('0');
        }
        // Writing to a `String` cannot fail.
        let _ = match char::from_digit(exponent, 10) {
            Some(digit) => text.write_char(digit),
            None => write!(text, "{exponent}"),
        };
    }
}

/// Appends the digits of a number with the point behind the first; answers by which power of ten
/// they are to be multiplied.
fn push_mantissa(text: &mut String, number: &str) -> i32 {
    let digits = match number.strip_prefix('-') {
        Some(digits) => {
            text.push('-');
            digits
        }
        None => number,
    };
    let (digits, exponent) = digits.rsplit_once('e').unwrap_or((digits, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or_default();
    if let [b'1'..=b'9', b'.', fraction @ ..] = digits.as_bytes()
        && fraction.last().is_some_and(|digit| *digit != b'0')
    {
        text.push_str(digits);
        return exponent;
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    exponent += i32::try_from(whole.len()).unwrap_or_default();
    let start = text.len();
    for digit in whole.chars().chain(fraction.chars()) {
        match text.len() - start {
            0 => {
                exponent -= 1;
                if digit != '0' {
                    text.push(digit);
                }
            }
            1 => {
                text.push('.');
                text.push(digit);
            }
            _ => text.push(digit),
        }
    }
    // A first digit without any others stands without the point.
    while text.len() > start + 1 && text.ends_with(['0', '.']) {
        text.pop();
    }
    exponent
}

/// The last digit that Python writes, where it is another one than Rust writes.
///
/// 1658206780088562.25 is as far from ….2 as from ….3, and either reads back as the same number.
/// Rust takes the greater, Python the one that is even.
fn even_digit_of_a_tie(text: &str, start: usize, exponent: i32, value: f64) -> Option<char> {
    // A tie has one digit more than the text: 18 at most. With n binary places a number is a
    // multiple of 5^n over 10^n, and 5^26 has 19 digits: so nearly every number is out already.
    let bits = value.to_bits();
    let fraction = (bits & ((1 << 52) - 1)) | (1 << 52);
    let places =
        1075 - i64::from(fraction.trailing_zeros()) - i64::try_from(bits >> 52 & 0x7ff).ok()?;
    if places > 25 {
        return None;
    }
    let mantissa = text.get(start..)?;
    let (head, last) = mantissa.split_at_checked(mantissa.len().checked_sub(1)?)?;
    let last = last.parse::<u8>().ok().filter(|digit| digit % 2 == 1)?;
    // Two texts of 15 digits or fewer never read as one number.
    if mantissa.bytes().filter(u8::is_ascii_digit).count() < 16 {
        return None;
    }
    // No integer has more digits than this, and no number that came so far.
    let exact = format!("{value:.350e}");
    let (exact, _) = exact.split_once('e')?;
    let mut exact = exact.chars().filter(char::is_ascii_digit);
    let mut shortest = mantissa
        .chars()
        .filter(char::is_ascii_digit)
        .skip_while(|digit| *digit == '0');
    let is_lower = shortest.all(|digit| exact.next() == Some(digit));
    // Where they differ, that was in the last digit.
    if exact.next() != Some('5') || exact.any(|digit| digit != '0') {
        return None;
    }
    let even = if is_lower { last + 1 } else { last - 1 };
    let reads_back = format!("{head}{even}e{exponent}").parse() == Ok(value);
    (reads_back && even < 10).then(|| char::from(b'0' + even))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn text(value: f64) -> String {
        let mut text = String::from("|");
        push(&mut text, value);
        text.split_off(1)
    }

    #[test]
    fn numbers_have_pythons_shortest_form() {
        let table = [
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (-1.0, "-1.0"),
            (100_000.0, "100000.0"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (1e100, "1e+100"),
            (0.0001, "0.0001"),
            (0.000_099_999, "9.9999e-05"),
            (1e-5, "1e-05"),
            (-1.5e-7, "-1.5e-07"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (1_658_206_780_088_562.0 + 0.25, "1658206780088562.2"),
            (1_658_206_780_088_562.0 + 0.75, "1658206780088562.8"),
            (-1_658_206_780_088_562.0 - 0.25, "-1658206780088562.2"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in table {
            assert_eq!(text(value), expected);
        }
    }

    /// A small generator is enough here: every pattern of bits is as good as any other.
    fn bit_patterns(count: usize) -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
        .take(count)
    }

    #[test]
    fn any_pattern_of_bits_is_written_as_python_writes_it() {
        let mut values: Vec<f64> = bit_patterns(40_000).map(f64::from_bits).collect();
        // Decimal fractions of few digits, as measurements are, and the neighbours of powers of two
        // and ten, where the shortest form is easiest to get wrong.
        for bits in bit_patterns(20_000) {
            let few = f64::from(u32::try_from(bits % 1_000_000).unwrap());
            values.push(few / 10_f64.powi(i32::try_from(bits >> 40 & 15).unwrap()));
        }
        for exponent in -324..309 {
            let power: f64 = format!("1e{exponent}").parse().unwrap();
            values.extend([power, power.next_up(), power.next_down()]);
        }
        // Large numbers with few binary places, of which many lie between two shortest texts.
        for bits in bit_patterns(20_000) {
            let mantissa = bits >> 11 | 1 << 52;
            values.push(mantissa as f64 / 2_f64.powi(i32::try_from(bits & 7).unwrap()));
            values.push(mantissa as f64 * 2_f64.powi(i32::try_from(bits & 63).unwrap()));
        }
        for exponent in -1074..1024 {
            let power = 2_f64.powi(exponent);
            values.extend([power, power.next_up(), power.next_down()]);
        }

        let script = "import struct,sys\n\
            data = sys.stdin.buffer.read()\n\
            print('\\n'.join(repr(x) for (x,) in struct.iter_unpack('<d', data)))";
        let mut python = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is needed for this test");
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        python.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success());
        let answer = String::from_utf8(output.stdout).unwrap();
        let expected: Vec<&str> = answer.lines().collect();

        assert_eq!(expected.len(), values.len());
        for (value, expected) in values.iter().zip(expected) {
            assert_eq!(text(*value), expected, "{:#018x}", value.to_bits());
        }
    }
}
