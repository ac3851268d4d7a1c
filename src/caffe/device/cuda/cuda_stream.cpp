#include "caffe/device/cuda/cuda_stream.hpp"

#include <utility>

#include "caffe/core/error.hpp"

namespace caffe::cuda {

CudaEvent::CudaEvent(const CudaStream& stream, bool timed)
    : Event(stream), context_(stream.context()), timed_(timed) {
  context_->MakeCurrent();
  const Driver& driver = Driver::Get();
  driver.cuEventCreate(&event_, timed ? 0 : kEventDisableTiming);
  const CUresult result = driver.cuEventRecord.Try(event_, stream.stream());
  if (result != kSuccess) {
    driver.cuEventDestroy.OrLog(event_);
    ThrowDriverError(driver.cuEventRecord.name(), result);
  }
}

CudaEvent::~CudaEvent() {
  if (context_->MakeCurrentIfCreated()) Driver::Get().cuEventDestroy.OrLog(event_);
}

void CudaEvent::Wait() {
  context_->MakeCurrent();
  Driver::Get().cuEventSynchronize(event_);
}

double CudaEvent::SecondsSince(Event& start) {
  auto* first = dynamic_cast<CudaEvent*>(&start);
  CAFFE_CHECK(first && first->context_ == context_,
              "the time between events of two devices is not defined");
  CAFFE_CHECK(first->timed_ && timed_, "an event that was recorded without timing has no time");
  first->Wait();
  Wait();
  float milliseconds = 0;
  Driver::Get().cuEventElapsedTime(&milliseconds, first->event_, event_);
  return milliseconds * 1e-3;
}

CudaStream::CudaStream(Device* device, std::shared_ptr<CudaContext> context)
    : Stream(device), context_(std::move(context)) {
  context_->MakeCurrent();
  Driver::Get().cuStreamCreate(&stream_, kStreamNonBlocking);
  staging_ = std::make_unique<CudaStaging>(context_, stream_);
}

CudaStream::~CudaStream() {
  const bool alive = context_->MakeCurrentIfCreated();
  if (alive) Driver::Get().cuStreamSynchronize.OrLog(stream_);
  Retire();
  staging_.reset();
  if (alive) Driver::Get().cuStreamDestroy.OrLog(stream_);
}

std::unique_ptr<Event> CudaStream::Record(bool timed) {
  return std::make_unique<CudaEvent>(*this, timed);
}

void CudaStream::Synchronize() {
  context_->MakeCurrent();
  Driver::Get().cuStreamSynchronize(stream_);
}

void CudaStream::DoWaitFor(Event& event) {
  context_->MakeCurrent();
  Driver::Get().cuStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).event(), 0);
}

}  // namespace caffe::cuda
