//! Bodies of answers, spoiled on the way.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use tokio::time::sleep;

/// The time between the pieces of a split body: without any, the system puts them together again.
const APART: Duration = Duration::from_millis(1);

type Piece = io::Result<Bytes>;

/// How long what was sent before a cut has to get out: closing a connection drops what the caller
/// has not taken yet.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// A body that breaks off after `bytes`.
pub(super) fn cut(body: Body, bytes: u64) -> Body {
    let first = prefix(body, bytes);
    let broken = stream::once(async {
        sleep(BEFORE_CUT).await;
        Err(io::Error::other("cut on purpose"))
    });
    first_then(first, broken)
}

/// A body of which nothing comes after `bytes`.
pub(super) fn stall(body: Body, bytes: u64) -> Body {
    first_then(prefix(body, bytes), stream::pending())
}

/// `first`, and where it did not reach the end of its body, `then`.
fn first_then(first: Prefix, then: impl futures::Stream<Item = Piece> + Send + 'static) -> Body {
    struct Both<S> {
        first: Prefix,
        then: Option<S>,
    }
    let both = Both {
        first,
        then: Some(Box::pin(then)),
    };
    Body::from_stream(stream::unfold(both, |mut both| async move {
        match both.first.next().await {
            Step::Piece(piece) => Some((piece, both)),
            Step::End => None,
            Step::Reached => {
                let mut then = both.then.take()?;
                let piece = then.next().await?;
                Some((piece, both))
            }
        }
    }))
}

/// The first bytes of a body.
struct Prefix {
    rest: BodyDataStream,
    left: u64,
}

enum Step {
    Piece(Piece),
    /// The body itself has ended.
    End,
    /// The bytes are used up.
    Reached,
}

fn prefix(body: Body, bytes: u64) -> Prefix {
    Prefix {
        rest: body.into_data_stream(),
        left: bytes,
    }
}

impl Prefix {
    async fn next(&mut self) -> Step {
        if self.left == 0 {
            return Step::Reached;
        }
        match self.rest.next().await {
            None => Step::End,
            Some(Err(error)) => Step::Piece(Err(io::Error::other(error))),
            Some(Ok(mut bytes)) => {
                let fits = usize::try_from(self.left).unwrap_or(usize::MAX);
                bytes.truncate(fits);
                self.left -= bytes.len() as u64;
                Step::Piece(Ok(bytes))
            }
        }
    }
}

/// A body in pieces of `bytes`, each of which is sent before the next one is made.
pub(super) fn split(body: Body, bytes: NonZeroU32) -> Body {
    pieces(body, bytes, APART)
}

/// A body with so many bytes a second.
pub(super) fn slow(body: Body, bytes_per_second: NonZeroU32) -> Body {
    // Twenty pieces a second are smooth enough; fewer where there are not so many bytes.
    let size = NonZeroU32::new(bytes_per_second.get() / 20).unwrap_or(NonZeroU32::MIN);
    let pause = Duration::from_secs_f64(f64::from(size.get()) / f64::from(bytes_per_second.get()));
    pieces(body, size, pause)
}

fn pieces(body: Body, size: NonZeroU32, pause: Duration) -> Body {
    let size = usize::try_from(size.get()).unwrap_or(usize::MAX);
    let state = (body.into_data_stream(), VecDeque::<Bytes>::new());
    Body::from_stream(stream::unfold(
        state,
        move |(mut rest, mut ready)| async move {
            // Time for the piece before this one to be written.
            sleep(pause).await;
            while ready.is_empty() {
                match rest.next().await? {
                    Ok(mut bytes) => {
                        while !bytes.is_empty() {
                            ready.push_back(bytes.split_to(size.min(bytes.len())));
                        }
                    }
                    Err(error) => return Some((Err(io::Error::other(error)), (rest, ready))),
                }
            }
            let piece = ready.pop_front()?;
            Some((Ok(piece), (rest, ready)))
        },
    ))
}

/// A body whose lines end in CR LF.
pub(super) fn crlf(body: Body) -> Body {
    let state = (body.into_data_stream(), false);
    Body::from_stream(stream::unfold(
        state,
        |(mut rest, mut after_cr)| async move {
            let piece = match rest.next().await? {
                Ok(bytes) => Ok(with_crlf(&bytes, &mut after_cr)),
                Err(error) => Err(io::Error::other(error)),
            };
            Some((piece, (rest, after_cr)))
        },
    ))
}

fn with_crlf(bytes: &[u8], after_cr: &mut bool) -> Bytes {
    let mut framed = BytesMut::with_capacity(bytes.len() + 16);
    for &byte in bytes {
        if byte == b'\n' && !*after_cr {
            framed.put_u8(b'\r');
        }
        *after_cr = byte == b'\r';
        framed.put_u8(byte);
    }
    framed.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(pieces: &[&str]) -> Body {
        let pieces: Vec<Piece> = pieces
            .iter()
            .map(|piece| Ok(Bytes::copy_from_slice(piece.as_bytes())))
            .collect();
        Body::from_stream(stream::iter(pieces))
    }

    /// What comes, piece by piece, and whether it broke.
    async fn collect(body: Body) -> (Vec<String>, bool) {
        let mut pieces = Vec::new();
        let mut rest = body.into_data_stream();
        while let Some(piece) = rest.next().await {
            match piece {
                Ok(bytes) => pieces.push(String::from_utf8(bytes.to_vec()).unwrap()),
                Err(_) => return (pieces, true),
            }
        }
        (pieces, false)
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_is_exact_and_spares_a_shorter_body() {
        let table: [(u64, &[&str], bool); 6] = [
            (0, &[], true),
            (2, &["ab"], true),
            (3, &["abc"], true),
            (4, &["abc", "d"], true),
            (6, &["abc", "def"], true),
            (7, &["abc", "def"], false),
        ];
        for (bytes, want, broken) in table {
            let got = collect(cut(body(&["abc", "def"]), bytes)).await;
            assert_eq!(
                got,
                (want.iter().map(|&s| s.to_owned()).collect(), broken),
                "{bytes}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_never_ends_and_a_slow_body_takes_its_time() {
        let stalled = collect(stall(body(&["abc"]), 2));
        tokio::time::timeout(Duration::from_secs(3600), stalled)
            .await
            .unwrap_err();
        let begun = tokio::time::Instant::now();
        let (pieces, _) = collect(slow(body(&["abcdefghij"]), NonZeroU32::new(5).unwrap())).await;
        assert_eq!(pieces.concat(), "abcdefghij");
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_secs(2) && took < Duration::from_secs(3),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_and_line_ends_are_as_asked() {
        let two = NonZeroU32::new(2).unwrap();
        let (pieces, _) = collect(split(body(&["abc", "", "de"]), two)).await;
        assert_eq!(pieces, ["ab", "c", "de"]);
        let (pieces, _) = collect(crlf(body(&["a\n\nb\r", "\nc\n"]))).await;
        assert_eq!(pieces, ["a\r\n\r\nb\r", "\nc\r\n"]);
    }
}
