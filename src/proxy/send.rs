//! Sends one request to the upstream, and runs the work that no decision waits for while the
//! upstream is answering.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Error as ClientError;

use crate::observe::event::{ConnectFailed, ConnectPhase};
use crate::proxy::admission::BufferedBody;
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::{Decision, Exchange};
use crate::proxy::headers;
use crate::proxy::overflow_retry::RetryableRequest;
use crate::proxy::peek::PeekedBody;
use crate::proxy::plan;
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Purpose};
use crate::summarizer::DueSummary;
use crate::upstream::{ConnectError, ConnectionSlot, RequestBody, Upload, UploadState};

/// Delay before the background summary call, so that it does not queue ahead of the request.
const SUMMARY_DELAY: Duration = Duration::from_secs(1);

/// How long an answer that is there waits for the size of its request.
const ASSESSMENT_GRACE: Duration = Duration::from_millis(2);

/// A request ready to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Its head.
    pub head: Parts,
    /// Its body: slices of the client's and new pieces.
    pub pieces: Vec<Bytes>,
    /// The client's body, kept until there is no use for it any more.
    pub body: BufferedBody,
    /// What is known of it; absent when it was not inspected.
    pub plan_request: Option<Arc<PlanRequest>>,
    /// Work that no decision waits for.
    pub alongside: Alongside,
}

/// Work that is done while the upstream is answering.
#[derive(Debug)]
pub(super) enum Alongside {
    /// None.
    Nothing,
    /// Finding out the size of a request that the gate let through.
    Assessment,
    /// A summary that a later request will need.
    Summary(Box<DueSummary>),
}

/// The upstream's answer, and the slot on the connection that it arrives by.
#[derive(Debug)]
pub(super) struct UpstreamResponse<B = PeekedBody> {
    pub response: Response<B>,
    pub slot: Option<ConnectionSlot>,
}

impl UpstreamResponse<Incoming> {
    /// The same answer, of which nothing was read ahead.
    pub(super) fn unread(self) -> UpstreamResponse {
        UpstreamResponse {
            response: self.response.map(PeekedBody::from),
            slot: self.slot,
        }
    }
}

/// An answer, and the request that was sent, should the answer report an overflow.
#[derive(Debug)]
pub(super) struct Sent {
    pub response: UpstreamResponse<Incoming>,
    pub retryable: Option<RetryableRequest>,
}

impl Exchange {
    /// Streams a request through unread, both ways.
    ///
    /// # Errors
    /// [`ProxyError`]: bad target, or the upstream cannot be reached or does not answer.
    pub(super) async fn stream_through(
        &mut self,
        request: Request<Incoming>,
    ) -> Result<UpstreamResponse, ProxyError> {
        let (parts, body) = request.into_parts();
        let head = self.upstream_head(parts)?;
        self.stream_unread(Request::from_parts(head, RequestBody::stream(body)))
            .await
    }

    /// Sends a request that is not looked at.
    ///
    /// # Errors
    /// [`ProxyError`]: the upstream cannot be reached or does not answer.
    pub(super) async fn stream_unread(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<UpstreamResponse, ProxyError> {
        let response = self.dispatch(request).await?;
        Ok(self.answered(response).unread())
    }

    /// 9. Send.
    ///
    /// # Errors
    /// [`ProxyError`]: the upstream cannot be reached or does not answer.
    pub(super) async fn send(&mut self, outgoing: Outgoing) -> Result<Sent, ProxyError> {
        let Outgoing {
            head,
            pieces,
            body,
            plan_request,
            alongside,
        } = outgoing;
        // One that is only observed is not sent again; that it was refused counts all the same.
        let retryable = plan_request.as_ref().map(|request| RetryableRequest {
            head: head.clone(),
            sent: pieces.clone(),
            plan_request: Arc::clone(request),
            _body: body,
        });
        let request = headers::with_body(head, pieces);
        let dispatched = match (alongside, &plan_request) {
            (Alongside::Assessment, Some(plan_request)) => {
                self.dispatch_and_assess(request, plan_request).await
            }
            (Alongside::Summary(due), Some(plan_request)) => {
                self.dispatch_then_summarize(request, plan_request, &due)
                    .await
            }
            _ => self.dispatch(request).await,
        };
        let response = self.answered(dispatched?);
        let is_readable = self.decision.as_ref().is_some_and(Decision::is_readable);
        Ok(Sent {
            response,
            retryable: retryable.filter(|_| is_readable),
        })
    }

    /// Sends a request and finds out its size meanwhile. An answer that comes sooner does not wait:
    /// the size then stays unknown.
    async fn dispatch_and_assess(
        &mut self,
        request: Request<RequestBody>,
        plan_request: &Arc<PlanRequest>,
    ) -> Result<Dispatched, ProxyError> {
        let proxy = Arc::clone(&self.proxy);
        let (dispatched, assessed) = {
            let mut dispatching = pin!(self.dispatch(request));
            let mut assessing = pin!(async {
                // The request goes first.
                tokio::task::yield_now().await;
                plan::ask(&proxy, plan_request, Purpose::Assess).await
            });
            tokio::select! {
                biased;
                dispatched = &mut dispatching => {
                    let late = tokio::time::timeout(ASSESSMENT_GRACE, assessing).await;
                    (dispatched, late.unwrap_or(Err(PlanFailure::Deadline)))
                }
                assessed = &mut assessing => (dispatching.await, assessed),
            }
        };
        self.assessed(plan_request, assessed);
        dispatched
    }

    /// Sends a request, and has its pending summary made afterwards. An upstream that serves one
    /// request at a time would otherwise let this one wait for the summary; one with a prompt cache
    /// has then read the prefix that both share.
    async fn dispatch_then_summarize(
        &self,
        request: Request<RequestBody>,
        plan_request: &Arc<PlanRequest>,
        due: &DueSummary,
    ) -> Result<Dispatched, ProxyError> {
        let mut dispatching = pin!(self.dispatch(request));
        let early = tokio::time::timeout(SUMMARY_DELAY, &mut dispatching).await;
        if !matches!(early, Ok(Err(_))) {
            self.proxy.spawn_summary(plan_request, due);
        }
        match early {
            Ok(dispatched) => dispatched,
            Err(_) => dispatching.await,
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn dispatch(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Dispatched, ProxyError> {
        let began = Instant::now();
        let late = self.deadline(request.body().upload());
        // Boxed, since it is long, and what every request is moved with holds it several times.
        let sending = Box::pin(self.proxy.upstream.send(request));
        let sent = tokio::select! {
            biased;
            sent = sending => sent,
            error = late => return Err(error),
        };
        let (response, slot) = sent.map_err(|error| self.send_failure(&error))?;
        let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switches || !headers::has_known_coding(response.headers()) {
            return Err(ProxyError::UpstreamInvalid);
        }
        Ok(Dispatched {
            response: UpstreamResponse { response, slot },
            first_byte: began.elapsed(),
        })
    }

    /// Ends when the answer is late. While the client is sending, the time runs between two pieces
    /// of its body.
    fn deadline(&self, upload: Option<Arc<Upload>>) -> impl Future<Output = ProxyError> + use<> {
        let config = &self.snapshot.config;
        let for_answer = config.upstream.response_timeout;
        let for_piece = config.limits.body_timeout;
        let began = Instant::now();
        async move {
            loop {
                let now = Instant::now();
                let (since, timeout, error) = match &upload {
                    None => (began, for_answer, ProxyError::UpstreamTimeout),
                    Some(upload) if upload.state() == UploadState::WaitsForClient => {
                        (upload.last_moved(), for_piece, ProxyError::BodyTimeout)
                    }
                    Some(upload) => {
                        let since = upload.last_moved();
                        (since, for_answer, ProxyError::UpstreamTimeout)
                    }
                };
                let end = since + timeout;
                if end <= now {
                    return error;
                }
                // What an upload waits for may change meanwhile.
                let next = match upload {
                    None => end,
                    Some(_) => end.min(now + for_answer.min(for_piece)),
                };
                tokio::time::sleep_until(next.into()).await;
            }
        }
    }

    fn send_failure(&self, error: &ClientError) -> ProxyError {
        let failed = ConnectError::in_causes_of(error);
        let phase = failed.map(|failed| failed.phase);
        if let Some(failed) = failed {
            ConnectFailed {
                id: &self.id,
                host: self.proxy.upstream.host(),
                phase: failed.phase,
                during: failed.during,
                cause: &failed.cause(),
            }
            .emit(&self.proxy.shared.metrics);
        }
        let broken = cause::<hyper::Error>(error);
        if let Some(phase) = phase {
            ProxyError::Unreachable(phase)
        } else if error.is_connect() {
            ProxyError::Unreachable(ConnectPhase::Connect)
        } else if is_clients_fault(error) {
            ProxyError::BodyBroken
        } else if broken.is_some_and(hyper::Error::is_parse) {
            ProxyError::UpstreamInvalid
        } else {
            ProxyError::UpstreamBroke
        }
    }

    /// Records the time that the upstream took to begin its answer.
    pub(super) fn answered(&mut self, dispatched: Dispatched) -> UpstreamResponse<Incoming> {
        self.first_byte = Some(dispatched.first_byte);
        dispatched.response
    }
}

/// An answer and the time to its head.
#[derive(Debug)]
pub(super) struct Dispatched {
    response: UpstreamResponse<Incoming>,
    first_byte: Duration,
}

/// The first cause of this kind.
fn cause<E: std::error::Error + 'static>(error: &ClientError) -> Option<&E> {
    causes(error).find_map(|cause| cause.downcast_ref::<E>())
}

/// An error and what caused it.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Whether sending failed because the client's body did.
fn is_clients_fault(error: &ClientError) -> bool {
    causes(error)
        .filter_map(|error| error.downcast_ref::<hyper::Error>())
        .any(|error| error.is_user() || error.is_body_write_aborted())
}
