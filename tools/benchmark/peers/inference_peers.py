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
        if task['type'] != 'float':
            raise Skip('its CPU provider computes these operations in float only')
        try:
            import onnxruntime
        except ImportError as error:
            raise Skip(str(error)) from None
        version, model = _onnx_model(graph, arrays)
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
        precision = {'float': 'f32', 'half': 'f16', 'bfloat16': 'bf16'}[task['type']]
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
