//! An S3 server on this machine: `s3s-fs` behind a wrapper.
//!
//! `s3s-fs` checks a condition and writes afterwards, with nothing between the two that keeps a
//! second writer away. The mutex of the wrapper does, so what these tests say of two publishers
//! holds for servers whose conditional writes are atomic, as S3's are.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use futures_util::StreamExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rocwheel_store::{S3Options, Signing, StoreLocking};
use s3s::auth::SimpleAuth;
use s3s::dto::*;
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use s3s_fs::FileSystem;
use tempfile::TempDir;

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 503 before anything is done.
    Busy,
    /// 503 after everything is done: the answer is lost.
    Lost,
    /// 409: another request with a condition is under way.
    Conflict,
    /// 404: what a condition names was deleted.
    Gone,
    Denied,
    /// The connection ends in the middle of the body of the answer.
    Reset,
    /// The body of the answer comes in small pieces.
    Slow,
    /// Everything is done half a second later.
    Late,
    /// Only half of the body of the request arrives.
    Truncated,
}

/// What the wrapper does and has seen.
#[derive(Default)]
pub(crate) struct Script {
    /// Operation, and what goes wrong with the next request of its kind.
    pub(crate) faults: Vec<(&'static str, Fault)>,
    /// Operations in order, `get_object KEY RANGE`.
    pub(crate) log: Vec<String>,
    /// `true` for a server that ignores conditions.
    pub(crate) ignores_conditions: bool,
    /// How many more objects it takes, besides locks; `None` for all.
    pub(crate) puts: Option<usize>,
}

struct Wrapper {
    files: FileSystem,
    conditions: tokio::sync::Mutex<()>,
    script: Arc<Mutex<Script>>,
}

impl Wrapper {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request and takes the fault that was planned for it.
    fn begin(&self, operation: &str, more: &str) -> S3Result<Option<Fault>> {
        let mut script = self.script();
        script.log.push(format!("{operation} {more}"));
        let found = script.faults.iter().position(|(of, _)| *of == operation);
        let fault = found.map(|at| script.faults.remove(at).1);
        let error = |code| Err(S3Error::new(code));
        match fault {
            Some(Fault::Busy) => error(S3ErrorCode::SlowDown),
            Some(Fault::Conflict) => error(S3ErrorCode::ConditionalRequestConflict),
            Some(Fault::Gone) => error(S3ErrorCode::NoSuchKey),
            Some(Fault::Denied) => error(S3ErrorCode::AccessDenied),
            other => Ok(other),
        }
    }
}

fn lost<T>(fault: Option<Fault>, answer: S3Response<T>) -> S3Result<S3Response<T>> {
    if fault == Some(Fault::Lost) { Err(S3Error::new(S3ErrorCode::SlowDown)) } else { Ok(answer) }
}

macro_rules! wrapped {
    ($($operation:ident: $input:ty => $output:ty;)*) => {
        #[async_trait::async_trait]
        impl S3 for Wrapper {
            $(async fn $operation(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                let fault = self.begin(stringify!($operation), "")?;
                if fault == Some(Fault::Late) {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                lost(fault, self.files.$operation(request).await?)
            })*

            async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
                let range = request.headers.get("range").and_then(|range| range.to_str().ok()).unwrap_or("all");
                let fault = self.begin("get_object", &format!("{} {range}", request.input.key))?;
                let mut answer = self.files.get_object(request).await?;
                if let Some(Fault::Reset | Fault::Slow) = fault
                    && let Some(mut body) = answer.output.body.take()
                {
                    let mut bytes = Vec::new();
                    while let Some(Ok(chunk)) = body.next().await {
                        bytes.extend_from_slice(&chunk);
                    }
                    let is_reset = fault == Some(Fault::Reset);
                    let kept = if is_reset { bytes.len() / 2 } else { bytes.len() };
                    let size = (kept / 8).max(1);
                    let chunks: Vec<_> = bytes[..kept].chunks(size).map(bytes::Bytes::copy_from_slice).map(Ok).collect();
                    let end = is_reset.then(|| Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
                    let slowly = futures_util::stream::iter(chunks.into_iter().chain(end)).then(|chunk| async {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        chunk
                    });
                    answer.output.body = Some(StreamingBlob::wrap(slowly));
                }
                lost(fault, answer)
            }

            async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
                let mut request = request;
                let fault = self.begin("put_object", &request.input.key)?;
                if let Some(puts) = self.script().puts.as_mut().filter(|_| !request.input.key.contains("/.rocwheel/")) {
                    if *puts == 0 {
                        return Err(S3Error::new(S3ErrorCode::AccessDenied));
                    }
                    *puts -= 1;
                }
                if fault == Some(Fault::Truncated)
                    && let Some(mut body) = request.input.body.take()
                {
                    let mut bytes = Vec::new();
                    while let Some(Ok(chunk)) = body.next().await {
                        bytes.extend_from_slice(&chunk);
                    }
                    bytes.truncate(bytes.len() / 2);
                    let half = futures_util::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(bytes))]);
                    request.input.body = Some(StreamingBlob::wrap(half));
                    request.input.content_length = None;
                }
                if self.script().ignores_conditions {
                    request.input.if_match = None;
                    request.input.if_none_match = None;
                }
                let _alone = self.conditions.lock().await;
                lost(fault, self.files.put_object(request).await?)
            }

            async fn complete_multipart_upload(
                &self,
                request: S3Request<CompleteMultipartUploadInput>,
            ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
                let fault = self.begin("complete_multipart_upload", &request.input.key)?;
                let _alone = self.conditions.lock().await;
                lost(fault, self.files.complete_multipart_upload(request).await?)
            }

            async fn delete_object(
                &self,
                request: S3Request<DeleteObjectInput>,
            ) -> S3Result<S3Response<DeleteObjectOutput>> {
                let fault = self.begin("delete_object", &request.input.key)?;
                let _alone = self.conditions.lock().await;
                lost(fault, self.files.delete_object(request).await?)
            }
        }
    };
}

wrapped! {
    head_object: HeadObjectInput => HeadObjectOutput;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output;
    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput;
    upload_part: UploadPartInput => UploadPartOutput;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput;
}

/// A running server with one bucket, `bucket`, in a folder that goes with it.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) script: Arc<Mutex<Script>>,
    port: u16,
    // Ends the server's runtime when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start() -> Server {
        Self::with_keys(true)
    }

    /// `false` for a server that asks for no credentials.
    pub(crate) fn with_keys(has_keys: bool) -> Server {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir(folder.path().join("bucket")).unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let wrapper = Wrapper {
            files: FileSystem::new(folder.path()).unwrap(),
            conditions: tokio::sync::Mutex::default(),
            script: Arc::clone(&script),
        };
        let mut builder = S3ServiceBuilder::new(wrapper);
        if has_keys {
            builder.set_auth(SimpleAuth::from_single("AKIATEST", "top-secret"));
        }
        let service = builder.build();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (send, receive) = mpsc::channel();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                let service = service.clone();
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Server { folder, script, port: receive.recv().unwrap(), _runtime: runtime }
    }

    pub(crate) fn options(&self, address: &str) -> S3Options {
        let variables = [("AWS_ACCESS_KEY_ID", "AKIATEST"), ("AWS_SECRET_ACCESS_KEY", "top-secret")];
        S3Options {
            address: address.parse().unwrap(),
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            signing: Signing::Credentials,
            locking: StoreLocking::Conditional,
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            owner: "the test".to_owned(),
        }
    }

    pub(crate) fn plan(&self, faults: &[(&'static str, Fault)]) {
        self.script.lock().unwrap().faults = faults.to_vec();
    }

    /// Lets the server refuse objects after so many; `None`: none.
    pub(crate) fn allow_puts(&self, puts: Option<usize>) {
        self.script.lock().unwrap().puts = puts;
    }

    /// What was asked since the last call.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().unwrap().log)
    }

    /// Files of multipart uploads that were neither completed nor removed.
    pub(crate) fn left_parts(&self) -> Vec<String> {
        let entries = fs_err::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".upload_id-") || name.contains(".upload-")).collect()
    }
}
