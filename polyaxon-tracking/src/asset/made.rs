//! Files that are made of values in memory: sounds and tables.

use serde_json::Value;

use crate::float;

/// A sound of one channel as a WAV file: 16 bits a sample, what is beyond -1 to 1 is cut off.
pub(super) fn wave(samples: &[f32], rate: u32) -> Vec<u8> {
    const BYTES: u32 = 2;
    // A file of this form has a length of 32 bits; a sound beyond that has lasted half a day.
    let size = u32::try_from(samples.len())
        .unwrap_or(u32::MAX)
        .saturating_mul(BYTES);
    let mut file = Vec::with_capacity(44 + samples.len() * 2);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&size.saturating_add(36).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt \x10\0\0\0");
    // Plain samples, one channel.
    file.extend_from_slice(&[1, 0, 1, 0]);
    file.extend_from_slice(&rate.to_le_bytes());
    file.extend_from_slice(&rate.saturating_mul(BYTES).to_le_bytes());
    // Bytes a frame, bits a sample.
    file.extend_from_slice(&[2, 0, 16, 0]);
    file.extend_from_slice(b"data");
    file.extend_from_slice(&size.to_le_bytes());
    for sample in samples {
        #[expect(clippy::cast_possible_truncation, reason = "within 16 bits")]
        let sample = (sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)) as i16;
        file.extend_from_slice(&sample.to_le_bytes());
    }
    file
}

/// Rows below named columns.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
}

impl Table {
    /// Comma-separated, the number of the row in front, as the platform's own module writes it.
    pub(super) fn to_csv(&self) -> String {
        let mut text = String::new();
        for column in &self.columns {
            text.push(',');
            push_quoted(&mut text, column);
        }
        text.push('\n');
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&number.to_string());
            for cell in row {
                text.push(',');
                push_quoted(&mut text, &shown(cell, ""));
            }
            text.push('\n');
        }
        text
    }

    /// A table of HTML, in the form of the platform's own module.
    pub(super) fn to_html(&self) -> String {
        let mut text = String::from(
            "<table border=\"1\" class=\"dataframe\">\n  <thead>\n    \
             <tr style=\"text-align: right;\">\n      <th></th>\n",
        );
        for column in &self.columns {
            push_cell(&mut text, "th", column);
        }
        text.push_str("    </tr>\n  </thead>\n  <tbody>\n");
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str("    <tr>\n");
            push_cell(&mut text, "th", &number.to_string());
            for cell in row {
                push_cell(&mut text, "td", &shown(cell, "None"));
            }
            text.push_str("    </tr>\n");
        }
        text.push_str("  </tbody>\n</table>");
        text
    }
}

/// A value as Python shows it.
fn shown(value: &Value, nothing: &str) -> String {
    match value {
        Value::Null => nothing.to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            None => number.to_string(),
            Some(value) => {
                let mut text = String::new();
                float::push(&mut text, value);
                text
            }
        },
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn push_quoted(text: &mut String, cell: &str) {
    if !cell.contains([',', '"', '\n', '\r']) {
        text.push_str(cell);
        return;
    }
    text.push('"');
    text.push_str(&cell.replace('"', "\"\""));
    text.push('"');
}

fn push_cell(text: &mut String, element: &str, cell: &str) {
    let cell = cell
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.push_str(&format!("      <{element}>{cell}</{element}>\n"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sound_has_a_header_and_samples_of_16_bits() {
        let file = wave(&[0.0, 0.5, -1.0, 2.0, f32::NAN], 8000);
        assert_eq!(file.len(), 44 + 10);
        assert_eq!(file[4..8], 46_u32.to_le_bytes());
        assert_eq!(file[24..32], [0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0]);
        let samples: Vec<i16> = file[44..]
            .chunks(2)
            .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        assert_eq!(samples, [0, 16_383, -32_767, 32_767, 0]);
    }

    #[test]
    fn cells_are_quoted_and_escaped_where_they_must_be() {
        let table = Table {
            columns: vec!["a".to_owned(), "b,c".to_owned()],
            rows: vec![
                vec![json!(1), json!("x\"<y>&\n")],
                vec![json!(0.5), Value::Null],
                vec![json!(true), json!(1e16)],
            ],
        };
        assert_eq!(
            table.to_csv(),
            ",a,\"b,c\"\n0,1,\"x\"\"<y>&\n\"\n1,0.5,\n2,True,1e+16\n"
        );
        let page = table.to_html();
        assert!(page.contains("<td>x\"&lt;y&gt;&amp;\n</td>"), "{page}");
        assert!(page.contains("<td>None</td>"), "{page}");
    }
}
