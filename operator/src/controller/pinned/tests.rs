use std::net::SocketAddr;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::store::{ByHttp, Root, Stores as _};
use super::*;
use crate::Manifest;
use crate::validate::validate;

const TLS: &str = include_str!("../../../tests/golden/tls.yaml");
const OTHER: &str = include_str!("../../../tests/golden/tls-versitygw.yaml");

fn certificate(manifest: &str) -> Vec<u8> {
    let manifest = Manifest::parse("m", manifest).unwrap();
    let checked = validate(&manifest.filestore, &manifest.secrets).unwrap();
    checked.tls.unwrap().certificate
}

/// A store with two buckets and the certificate of `manifest`, for `count` connections.
async fn store(manifest: &str, secret: &str, count: usize) -> SocketAddr {
    let secrets = Manifest::parse("m", manifest).unwrap().secrets;
    let key = PrivateKeyDer::from_pem_slice(secrets.bytes(secret, "tls.key").unwrap()).unwrap();
    let chain = vec![CertificateDer::from(certificate(manifest))];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for _ in 0..count {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).await.unwrap();
            assert!(
                asked
                    .get(..read)
                    .unwrap()
                    .starts_with(b"GET / HTTP/1.1\r\n")
            );
            let body = "<Bucket></Bucket><Bucket></Bucket>";
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn only_the_holder_of_the_certificate_is_asked() {
    let address = store(TLS, "files-tls", 3).await;
    let ask = |certificate: Option<Vec<u8>>| async move {
        let stores = ByHttp {
            port: address.port(),
        };
        let root = Root {
            access_key: "ryax".to_owned(),
            secret_key: "Ab3dEf6hIj9k".to_owned(),
            region: "us-east-1".to_owned(),
            certificate,
        };
        stores.try_out(address.ip(), &root, 2).await
    };
    assert_eq!(ask(Some(certificate(TLS))).await, Ok(()));
    // Whoever has another one does not even see the request.
    let error = ask(Some(certificate(OTHER))).await.unwrap_err();
    assert!(error.contains("TLS: invalid peer certificate"), "{error}");
    assert!(ask(None).await.is_err(), "plain HTTP");
}
