use super::*;
use crate::http::socket::Socket;
use hyper::rt::Write as _;
use std::io::{IoSlice, Write as _};
use std::pin::Pin;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

fn file(length: usize) -> (Arc<File>, Vec<u8>) {
    // 251 is prime: no page starts with the same byte as its neighbour.
    let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Arc::new(file), bytes)
}

async fn connection() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (Socket::plain(server.unwrap().0), client.unwrap())
}

/// Writes as hyper does: what was not taken is offered again.
async fn write_all(socket: &mut Socket, mut buffers: Vec<Bytes>) -> io::Result<()> {
    while !buffers.is_empty() {
        let slices: Vec<IoSlice<'_>> = buffers.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let mut written =
            std::future::poll_fn(|cx| Pin::new(&mut *socket).poll_write_vectored(cx, &slices))
                .await?;
        assert!(written > 0);
        while let Some(first) = buffers.first_mut() {
            let taken = written.min(first.len());
            drop(first.split_to(taken));
            written -= taken;
            if !first.is_empty() {
                break;
            }
            buffers.remove(0);
        }
    }
    Ok(())
}

#[tokio::test]
async fn slices_between_ordinary_bytes_arrive_as_the_file_s_bytes() {
    let (file, bytes) = file(9_000_001);
    let (other, other_bytes) = self::file(200_000);
    let (mut socket, mut client) = connection().await;
    let buffers = vec![
        Bytes::from_static(b"first head "),
        slice(&file, 0, MAX_SLICE).unwrap(),
        slice(&file, MAX_SLICE as u64, MAX_SLICE).unwrap(),
        slice(&file, 9_000_000, 1).unwrap(),
        Bytes::from_static(b" second head"),
        Bytes::from_static(b" "),
        slice(&other, 12_345, 100_000).unwrap(),
        slice(&file, 7, 3).unwrap(),
        Bytes::from_static(b" end"),
    ];
    let mut expected = b"first head ".to_vec();
    expected.extend_from_slice(&bytes[..2 * MAX_SLICE]);
    expected.push(bytes[9_000_000]);
    expected.extend_from_slice(b" second head ");
    expected.extend_from_slice(&other_bytes[12_345..112_345]);
    expected.extend_from_slice(&bytes[7..10]);
    expected.extend_from_slice(b" end");

    let received = tokio::spawn(async move {
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        received
    });
    write_all(&mut socket, buffers).await.unwrap();
    drop(socket);

    assert!(received.await.unwrap() == expected);
}

#[tokio::test]
async fn split_slices_stand_for_their_own_part() {
    let (file, bytes) = file(300_000);
    let mut whole = slice(&file, 1000, 200_000).unwrap();
    drop(file);
    let head = whole.split_to(50_000);
    let tail = whole.slice(100..);

    let (mut socket, mut client) = connection().await;
    let received = tokio::spawn(async move {
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        received
    });
    write_all(&mut socket, vec![tail, head]).await.unwrap();
    drop(socket);

    let mut expected = bytes[51_100..201_000].to_vec();
    expected.extend_from_slice(&bytes[1000..51_000]);
    assert!(received.await.unwrap() == expected);
}

#[tokio::test]
async fn file_that_became_shorter_is_an_error() {
    let (file, _) = file(100_000);
    let slice = slice(&file, 0, 100_000).unwrap();
    file.set_len(60_000).unwrap();

    let (mut socket, mut client) = connection().await;
    let received = tokio::spawn(async move {
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        received.len()
    });
    let error = write_all(&mut socket, vec![slice]).await.unwrap_err();
    drop(socket);

    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(received.await.unwrap(), 60_000);
}

#[tokio::test]
async fn client_that_leaves_is_an_error() {
    let (file, _) = file(MAX_SLICE);
    let (mut socket, client) = connection().await;
    drop(client);

    let slices = (0..4).map(|_| slice(&file, 0, MAX_SLICE).unwrap());

    assert!(write_all(&mut socket, slices.collect()).await.is_err());
}

#[test]
fn file_is_held_as_long_as_the_slice() {
    let (file, _) = file(10);
    let bytes = slice(&file, 0, 10).unwrap();
    assert!(find(&bytes).unwrap().is_some());
    assert_eq!(Arc::strong_count(&file), 2);

    drop(bytes);

    assert_eq!(Arc::strong_count(&file), 1);
    assert!(find(b"ordinary").unwrap().is_none());
    assert!(slice(&file, 0, 0).is_none());
    assert!(slice(&file, 0, MAX_SLICE + 1).is_none());
}

#[test]
fn written_files_are_warm() {
    // On a file system that cannot tell, the answer is `Unknown` and bodies are copied.
    let (file, _) = file(100_000);
    assert_ne!(warmth(&file, 0, 100_000), Warmth::Cold);
    assert!(warm(&file, 0, 100_000).is_ok());
}
