//! A client that sends exactly what it is told.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::harness::{PATIENCE, Request};

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find_map(|(had, value)| (had == name).then_some(value.as_str()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Content of an XML element.
    pub(crate) fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
    }

    /// Status and S3 error code.
    pub(crate) fn error(&self) -> (u16, Option<String>) {
        (self.status, self.element("Code"))
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// Read but not yet taken.
    rest: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            rest: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a request and reads its answer.
    pub(crate) fn send(&mut self, request: &Request) -> Response {
        let (head, body) = request.bytes();
        self.write(&head);
        self.write(&body);
        self.response(request.method == "HEAD")
    }

    /// Reads until `end` was seen, or the end of the connection.
    fn read_more(&mut self) -> usize {
        let mut buffer = vec![0; 256 * 1024];
        let read = self.stream.read(&mut buffer).unwrap();
        self.rest.extend_from_slice(&buffer[..read]);
        read
    }

    /// Reads one answer (also an interim one).
    pub(crate) fn response(&mut self, of_head: bool) -> Response {
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            assert!(self.read_more() > 0, "connection ended before an answer");
        };
        let head = String::from_utf8(self.rest[..end].to_vec()).unwrap();
        self.rest.drain(..end + 4);
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut response = Response {
            status: status.parse().unwrap(),
            headers,
            body: Vec::new(),
        };
        let bodiless = of_head || matches!(response.status, 100..200 | 204 | 304);
        if bodiless {
            return response;
        }
        response.body = match response.header("content-length") {
            Some(length) => self.take(length.parse().unwrap()),
            None if response.header("transfer-encoding") == Some("chunked") => self.chunked(),
            None => {
                while self.read_more() > 0 {}
                std::mem::take(&mut self.rest)
            }
        };
        response
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.rest.len() < length {
            assert!(self.read_more() > 0, "connection ended within a body");
        }
        self.rest.drain(..length).collect()
    }

    fn chunked(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.rest.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                assert!(self.read_more() > 0, "connection ended within a body");
            };
            let size = String::from_utf8(self.take(end)).unwrap();
            self.take(2);
            let size = usize::from_str_radix(&size, 16).unwrap();
            body.extend(self.take(size));
            self.take(2);
            if size == 0 {
                return body;
            }
        }
    }

    /// Whether the server ended the connection, with nothing more to read.
    pub(crate) fn at_end(&mut self) -> bool {
        self.rest.is_empty() && self.read_more() == 0
    }

    pub(crate) fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Everything until the end of the connection, errors included in "end".
    pub(crate) fn until_end(mut self) -> Vec<u8> {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read) = self.stream.read(&mut buffer) {
            if read == 0 {
                break;
            }
            self.rest.extend_from_slice(&buffer[..read]);
        }
        self.rest
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
}
