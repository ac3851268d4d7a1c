"""PyTorch as a side: torch, and behind it -all, -channels-last, -tf32, -graph (CUDA) or -compile."""
import contextlib

from peers.settings import (CHECKED_ITEMS, CHECKED_LOSSES, DECAY, DIFF, MOMENTUM, RATE, Skip,
                            images, labels)

WARM_UP = 3  # passes on a stream of their own before a capture


class Torch:
    """One net in one mode. step(n) runs n passes and waits for the device."""

    def __init__(self, task, graph, arrays):
        try:
            import torch
        except ImportError as error:
            raise Skip(str(error)) from None
        from peers import torch_module
        self.torch = torch
        self.options = task['side'].split('-')[1:]
        self.work, self.type = task['work'], task['type']
        self.device = torch.device(task['device'])
        self.cuda = self.device.type == 'cuda'
        self.captured = 'graph' in self.options
        if self.cuda and not torch.cuda.is_available():
            raise Skip('PyTorch %s has no CUDA device' % torch.__version__)
        if self.type.startswith('int'):
            raise Skip('its integers are not measured')
        if self.captured and not self.cuda:
            raise Skip('graphs are captured on CUDA only')
        if self.cuda:
            torch.cuda.set_device(self.device)
        torch.set_num_threads(task['threads'])
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        tf32 = 'tf32' in self.options
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.dtype = getattr(torch, {'half': 'float16'}.get(self.type, self.type))
        self.graph = graph
        training = self.work == 'train'
        built = torch_module.without_softmax(graph) if training else graph
        self.all_items = 'all' in self.options or self.captured
        self.module, rates = torch_module.build(built, arrays, self.all_items)
        self.x = torch.from_numpy(images(graph.shapes[graph.input]))
        torch_module.check_shapes(self.module, self.x[:1])
        self._place()
        self.facts = dict(versions=self._versions(), device=self._device_name())
        if training:
            losses = self._losses_without_dropout(built, arrays) if task['dropout'] else None
            self._prepare_training(rates, losses)
        else:
            self._prepare_passes()

    # --- Preparation ------------------------------------------------------------------------------

    def _place(self):
        self.layout = {}
        if 'channels' in self.options:
            self.layout['memory_format'] = self.torch.channels_last
        self.module.to(self.device, **self.layout)
        self.x = self.x.to(self.device, **self.layout)
        if self.work == 'forward':
            self.module.to(self.dtype)
            self.x = self.x.to(self.dtype)

    def _autocast(self):
        """Mixed precision of passes with gradients: weights stay float."""
        if self.type == 'float' or self.work == 'forward':
            return contextlib.nullcontext()
        return self.torch.autocast(self.device.type, self.dtype, cache_enabled=not self.captured)

    def _evaluate(self):
        """The probabilities of the first items in phase TEST."""
        torch = self.torch
        self.module.eval()
        with torch.inference_mode(), self._autocast():
            result = self.module(self.x[:CHECKED_ITEMS]).flatten(1).float()
        if self.work == 'train':
            result = result.softmax(1)
        return result.cpu().numpy().tolist()

    def _callable(self):
        return self.torch.compile(self.module) if 'compile' in self.options else self.module

    def _reset_peak(self):
        if self.cuda:
            self.torch.cuda.synchronize(self.device)
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats(self.device)

    def _note_peak(self):
        if self.cuda:
            self.torch.cuda.synchronize(self.device)
            self.facts['mib'] = self.torch.cuda.max_memory_allocated(self.device) / 2 ** 20

    def _capture(self, work):
        """A graph of one pass, whose tensors stay where they are."""
        torch = self.torch
        self.recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.recorded):
            return work()

    def _apart(self, work):
        """Runs something on a stream of its own, as a capture requires of the passes before it."""
        torch = self.torch
        if not self.captured:
            return work()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = work()
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _prepare_passes(self):
        torch, forward = self.torch, self.work == 'forward'
        if not forward:
            self.facts['output'] = self._evaluate()
        self.module.train(not forward)
        module = self._callable()
        diff = None

        def work():
            with self._autocast():
                output = module(self.x)
            if not forward:
                output.backward(diff)
            return output

        def work_once():
            nonlocal diff
            for parameter in self.module.parameters():
                parameter.grad = None
            if forward:
                with torch.inference_mode():
                    return work()
            if diff is None:
                with torch.no_grad(), self._autocast():
                    diff = torch.full_like(module(self.x), DIFF)
            return work()

        for _ in range(WARM_UP):
            self._apart(work_once)
        self._reset_peak()
        if self.captured:
            output = self._capture(work_once)

            def run():
                self.recorded.replay()
                return output
        else:
            run = work_once

        def step(passes):
            for _ in range(passes):
                result = run().detach().cpu()
            if self.cuda:
                torch.cuda.synchronize(self.device)
            return result

        result = step(2)
        self._note_peak()
        if forward:
            self.facts['output'] = result[:CHECKED_ITEMS].flatten(1).float().numpy().tolist()
        self.step = step

    def _optimizer(self, module, rates, **more):
        """SGD with the rates of the net's parameters, and a scaler that works for half only."""
        groups = {}
        for parameter in module.parameters():
            if rates[parameter][0]:
                groups.setdefault(rates[parameter], []).append(parameter)
        optimizer = self.torch.optim.SGD(
            [dict(params=parameters, lr=RATE * rate, weight_decay=DECAY * decay)
             for (rate, decay), parameters in groups.items()], lr=RATE, momentum=MOMENTUM, **more)
        return optimizer, self.torch.amp.GradScaler(self.device.type, enabled=self.type == 'half')

    def _targets(self, batch):
        classes = self.graph.shapes[self.graph.output][1]
        return self.torch.from_numpy(labels(batch, classes)).to(self.device)

    def _backward(self, module, x, targets, optimizer, scaler):
        optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self.torch.nn.functional.cross_entropy(module(x).flatten(1), targets)
        scaler.scale(loss).backward()
        return loss.detach()

    def _losses_without_dropout(self, graph, arrays):
        """Losses of a small batch, which Dropout does not make random."""
        from peers import torch_module
        module, rates = torch_module.build(graph, arrays, self.all_items)
        module.to(self.device, **self.layout)
        for part in module.modules():
            if isinstance(part, self.torch.nn.Dropout):
                part.p = 0
        optimizer, scaler = self._optimizer(module, rates)
        x, losses = self.x[:CHECKED_ITEMS], []
        for _ in range(CHECKED_LOSSES):
            loss = self._backward(module, x, self._targets(len(x)), optimizer, scaler)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    def _prepare_training(self, rates, losses):
        targets = self._targets(len(self.x))
        self.facts['output'] = self._evaluate()
        self.module.train()
        module = self._callable()
        half = self.type == 'half'
        # The update of a fused optimiser needs no answer of the device, even with a scaler.
        more = dict(fused=True) if half and self.captured else {}
        optimizer, scaler = self._optimizer(self.module, rates, **more)

        def backward():
            return self._backward(module, self.x, targets, optimizer, scaler)

        def update():
            scaler.step(optimizer)
            scaler.update()

        def iterate():
            loss = backward()
            update()
            return loss

        own = [self._apart(iterate).item() for _ in range(WARM_UP)]
        self._reset_peak()
        run = iterate
        if self.captured:
            # A scaler decides about the update, so its kernels stay outside the graph.
            captured_loss = self._capture(backward if half else iterate)

            def run():
                self.recorded.replay()
                if half:
                    update()
                return captured_loss

        own += [run().item() for _ in range(CHECKED_LOSSES - WARM_UP)]
        self._note_peak()
        self.facts['losses'] = losses or own

        def step(passes):
            for _ in range(passes):
                result = run()
            return result.item()  # waits for the device

        self.step = step

    # --- Facts ------------------------------------------------------------------------------------

    def _versions(self):
        torch = self.torch
        versions = {'PyTorch': torch.__version__}
        if self.cuda:
            versions['CUDA of PyTorch'] = torch.version.cuda
            versions['cuDNN of PyTorch'] = str(torch.backends.cudnn.version())
        return versions

    def _device_name(self):
        return self.torch.cuda.get_device_name(self.device) if self.cuda else None
