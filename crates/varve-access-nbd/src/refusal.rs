//! A connection that is not served: its client is told why, in the answer to its first option.

use varve_nbd::constant::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, IHAVEOPT, NBDMAGIC, rep};

use crate::limits::AGREEMENT_RECEIVE_BYTES;
use crate::transport::{SendPart, Transport};
use crate::wire::option::{OptionHeader, OptionReply};
use varve_stdx::{AlignedBuf, Reader};

/// Greets the client, refuses its first option for this reason, and closes the stream. The caller sees to a deadline.
pub(crate) async fn refuse<T: Transport>(transport: T, why: &str) {
    let mut greeting = Vec::new();
    greeting.extend_from_slice(&NBDMAGIC.to_be_bytes());
    greeting.extend_from_slice(&IHAVEOPT.to_be_bytes());
    greeting.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    if transport.send_all(vec![SendPart::Small(greeting)]).await.is_ok()
        && let Some(option) = first_option(&transport).await
    {
        let mut out = Vec::new();
        OptionReply { option, out: &mut out }.error(rep::ERR_POLICY, why);
        // It is refused, whatever becomes of this.
        let _ = transport.send_all(vec![SendPart::Small(out)]).await;
    }
    transport.shutdown();
}

/// The first option of the client; its data do not matter.
async fn first_option<T: Transport>(transport: &T) -> Option<u32> {
    let mut buf = AlignedBuf::zeroed(AGREEMENT_RECEIVE_BYTES);
    let mut filled = 0;
    loop {
        let mut received = Reader::big_endian("handshake", buf.get(..filled)?);
        if received.u32().is_ok()
            && let Some(header) = OptionHeader::decode(received.rest()).ok()?
        {
            return Some(header.option);
        }
        let rest = filled..buf.len();
        let (count, back) = transport.recv(buf, rest).await;
        buf = back;
        filled += count.ok().filter(|count| *count > 0)?;
    }
}

#[cfg(test)]
mod tests {
    use varve_reactor::SimLoop;

    use super::*;
    use crate::pipe::{PipeOptions, pipe};
    use varve_nbd::constant::opt;

    #[test]
    fn a_client_is_told_why_it_is_refused() {
        let mut sim = SimLoop::new(1);
        let (client, server) = pipe(PipeOptions { capacity: 1 << 16, receive_max: 7 });
        sim.handle().spawn(async move { refuse(server, "the house is full").await });
        let received = sim.run_until(async move {
            let mut option = Vec::new();
            option.extend_from_slice(&3u32.to_be_bytes());
            option.extend_from_slice(&IHAVEOPT.to_be_bytes());
            option.extend_from_slice(&opt::GO.to_be_bytes());
            option.extend_from_slice(&6u32.to_be_bytes());
            option.extend_from_slice(&[0; 6]);
            client.send_all(vec![SendPart::Small(option)]).await.unwrap();
            let (mut received, mut buf) = (Vec::new(), AlignedBuf::zeroed(4096));
            loop {
                let whole = 0..buf.len();
                let (count, back) = client.recv(buf, whole).await;
                buf = back;
                match count.unwrap() {
                    0 => return received,
                    count => received.extend_from_slice(&buf[..count]),
                }
            }
        });
        let reply = &received[18..];
        assert_eq!(reply[8..12], opt::GO.to_be_bytes());
        assert_eq!(reply[12..16], rep::ERR_POLICY.to_be_bytes());
        assert_eq!(&reply[20..], b"the house is full");
    }
}
