"""ONNX Runtime and OpenVINO as sides, on the CPU: both read the same ONNX model."""
import os
import tempfile

from peers.settings import CHECKED_ITEMS, Skip, images


def _onnx_model(graph, arrays):
    try:
        import onnx
        from peers import onnx_model
    except ImportError as error:
        raise Skip(str(error)) from None
    return onnx.__version__, onnx_model.make_model(graph, arrays).SerializeToString()


class _Images:
    """The one batch from which ranges are calibrated."""

    def __init__(self, graph):
        self.feeds = [{graph.input: images(graph.shapes[graph.input])}]

    def get_next(self):
        return self.feeds.pop() if self.feeds else None


def _quantized(model, graph):
    """The model in INT8 between QuantizeLinear and DequantizeLinear, by ONNX Runtime's tool."""
    try:
        from onnxruntime import quantization
        from onnxruntime.quantization import shape_inference
    except ImportError as error:
        raise Skip(str(error)) from None
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ('net.onnx', 'folded.onnx', 'int8.onnx')]
        with open(paths[0], 'wb') as file:
            file.write(model)
        shape_inference.quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantization.quantize_static(
            paths[1], paths[2], _Images(graph), quant_format=quantization.QuantFormat.QDQ,
            per_channel=True, activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8)
        with open(paths[2], 'rb') as file:
            return file.read()


def _refuse(task):
    if task['work'] != 'forward':
        raise Skip('it has forward passes only')
    if task['device'] != 'cpu':
        raise Skip('it is measured on the CPU only')


class _Inference:
    def _finish(self, graph):
        for _ in range(2):
            self.run()
        result = self.run()[:CHECKED_ITEMS]
        self.facts['output'] = result.reshape(len(result), -1).tolist()

    def step(self, passes):
        for _ in range(passes):
            self.run()


class OnnxRuntime(_Inference):
    def __init__(self, task, graph, arrays):
        _refuse(task)
        if task['type'] not in ('float', 'int8'):
            raise Skip('its CPU provider computes these operations in float and INT8 only')
        try:
            import onnxruntime
        except ImportError as error:
            raise Skip(str(error)) from None
        version, model = _onnx_model(graph, arrays)
        if task['type'] == 'int8':
            model = _quantized(model, graph)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = task['threads']
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
        shape = tuple(session.get_outputs()[0].shape)
        if shape != tuple(graph.shapes[graph.output]):
            raise ValueError('the output has shape %s, in Caffe %s' % (
                shape, graph.shapes[graph.output]))
        feed = {graph.input: images(graph.shapes[graph.input])}
        self.run = lambda: session.run(None, feed)[0]
        self.facts = dict(versions={'ONNX Runtime': onnxruntime.__version__, 'onnx': version})
        self._finish(graph)


class OpenVino(_Inference):
    def __init__(self, task, graph, arrays):
        _refuse(task)
        try:
            import openvino
        except ImportError as error:
            raise Skip(str(error)) from None
        version, model = _onnx_model(graph, arrays)
        core = openvino.Core()
        if task['type'] == 'int16':
            raise Skip('it has no INT16')
        if task['type'] == 'int8':
            model = _quantized(model, graph)
        precision = {'float': 'f32', 'half': 'f16', 'bfloat16': 'bf16', 'int8': 'f32'}[task['type']]
        settings = {'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_NUM_THREADS': task['threads'],
                    'INFERENCE_PRECISION_HINT': precision}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'net.onnx')
            with open(path, 'wb') as file:
                file.write(model)
            compiled = core.compile_model(core.read_model(path), 'CPU', settings)
        used = compiled.get_property('INFERENCE_PRECISION_HINT').to_string()
        if used != precision:
            raise Skip('this processor computes in %s instead of %s' % (used, precision))
        request = compiled.create_infer_request()
        # The request reads the array in place.
        self.tensor = openvino.Tensor(images(graph.shapes[graph.input]), shared_memory=True)
        request.set_input_tensor(self.tensor)
        output = request.get_output_tensor()
        if tuple(output.shape) != tuple(graph.shapes[graph.output]):
            raise ValueError('the output has shape %s, in Caffe %s' % (
                tuple(output.shape), graph.shapes[graph.output]))

        def run():
            request.infer()
            return request.get_output_tensor().data

        self.run = run
        self.facts = dict(versions={'OpenVINO': openvino.__version__, 'onnx': version})
        self._finish(graph)
