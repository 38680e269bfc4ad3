//! How values are written in our JSON files.

/// Bytes: a string where they are UTF-8, `{"base64": "…"}` where not.
pub(crate) mod bytes {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged, expecting = "a text, or an object with the bytes in base64")]
    enum Form<'a> {
        Text(std::borrow::Cow<'a, str>),
        Base64 { base64: String },
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Form::Text(text.into()),
            Err(_) => Form::Base64 {
                base64: BASE64_STANDARD.encode(bytes),
            },
        }
        .serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
        match Form::deserialize(input)? {
            Form::Text(text) => Ok(text.into_owned().into_bytes()),
            Form::Base64 { base64 } => BASE64_STANDARD.decode(base64).map_err(de::Error::custom),
        }
    }
}

/// A length of time in whole milliseconds.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn whole(length: Duration) -> u64 {
        u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
    }

    /// The length as it is read back after it was written.
    pub(crate) fn cut(length: Duration) -> Duration {
        Duration::from_millis(whole(length))
    }

    pub(crate) fn serialize<S: Serializer>(length: &Duration, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u64(whole(*length))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
        u64::deserialize(input).map(Duration::from_millis)
    }
}

/// A length of time in whole milliseconds, or null where it is unknown.
pub(crate) mod maybe_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the form that serde asks for")]
    pub(crate) fn serialize<S: Serializer>(
        length: &Option<Duration>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        length.map(super::millis::whole).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(input)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held(#[serde(with = "super::bytes")] Vec<u8>);

    proptest! {
        #[test]
        fn bytes_are_read_as_they_were_written(bytes: Vec<u8>) {
            let held = Held(bytes);
            let json = serde_json::to_string(&held).unwrap();
            prop_assert_eq!(serde_json::from_str::<Held>(&json).unwrap(), held);
        }
    }

    #[test]
    fn text_is_readable_and_the_rest_is_base64() {
        let text = serde_json::to_string(&Held(b"a\n\x1b".to_vec())).unwrap();
        assert_eq!(text, r#""a\n\u001b""#);
        let raw = serde_json::to_string(&Held(b"\xff".to_vec())).unwrap();
        assert_eq!(raw, r#"{"base64":"/w=="}"#);
        serde_json::from_str::<Held>(r#"{"base64":"?"}"#).unwrap_err();
    }
}
