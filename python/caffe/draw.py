"""Pictures of nets, through graphviz.

`net_to_dot` writes the text in graphviz's language; pictures need graphviz's command `dot`.
Only `get_pydot_graph` needs pydot or pydotplus.
"""
import shutil
import subprocess

from ._caffe import _printable
from .proto import caffe_pb2

LAYER_STYLE_DEFAULT = {'shape': 'record', 'fillcolor': '#6495ED', 'style': 'filled'}
NEURON_LAYER_STYLE = {'shape': 'record', 'fillcolor': '#90EE90', 'style': 'filled'}
BLOB_STYLE = {'shape': 'octagon', 'fillcolor': '#E0E0E0', 'style': 'filled'}

CONVOLUTIONS = ('Convolution', 'ConvolutionDepthwise', 'Deconvolution', 'DepthwiseConvolution')

# Extensions of formats that are the text itself.
_TEXT = ('dot', 'gv', 'raw')


def get_pooling_types_dict():
    """Number -> name of the pooling methods."""
    values = caffe_pb2.PoolingParameter.PoolMethod.DESCRIPTOR.values
    return {value.number: value.name for value in values}


def get_edge_label(layer):
    """The label of the edges out of a layer: batch size or number of outputs."""
    if layer.type == 'Data':
        return 'Batch %d' % layer.data_param.batch_size
    if layer.type in CONVOLUTIONS:
        return str(layer.convolution_param.num_output or '')  # a depthwise one may omit it
    if layer.type == 'InnerProduct':
        return str(layer.inner_product_param.num_output)
    return ''


def get_layer_lr_mult(layer):
    """The lr_mult of a layer's parameters, as written; [] for layers that do not learn."""
    if layer.type not in CONVOLUTIONS + ('InnerProduct',):
        return []
    return [param.lr_mult for param in layer.param]


def _spatial(param, name):
    """kernel_size, stride or pad as text: one number if it is the same along all axes."""
    short = name.split('_')[0]
    if param.HasField(short + '_h') or param.HasField(short + '_w'):
        return '%dx%d' % (getattr(param, short + '_h'), getattr(param, short + '_w'))
    value = getattr(param, name)
    values = [value] if isinstance(value, int) else list(value)
    if not values:
        values = [1 if name in ('stride', 'dilation') else 0]
    return 'x'.join(map(str, values if len(set(values)) > 1 else values[:1]))


def get_layer_label(layer, rankdir, display_lrm=False):
    """The lines in a layer's node; in one line if the graph runs from top to bottom."""
    lines = [layer.name, '(%s)' % layer.type]
    if layer.type in CONVOLUTIONS:
        param = layer.convolution_param
        lines += ['kernel size: ' + _spatial(param, 'kernel_size'),
                  'stride: ' + _spatial(param, 'stride'), 'pad: ' + _spatial(param, 'pad')]
    elif layer.type == 'Pooling':
        param = layer.pooling_param
        lines[1] = '(%s %s)' % (get_pooling_types_dict()[param.pool], layer.type)
        if param.global_pooling:
            lines.append('global')
        else:
            lines += ['kernel size: ' + _spatial(param, 'kernel_size'),
                      'stride: ' + _spatial(param, 'stride'), 'pad: ' + _spatial(param, 'pad')]
    if display_lrm:
        factors = get_layer_lr_mult(layer)
        if factors:
            lines.append('lr mult: ' + ', '.join('%g' % factor for factor in factors))
    return (' ' if rankdir in ('TB', 'BT') else '\n').join(lines)


def choose_color_by_layertype(layertype):
    """A fill colour for a type of layer."""
    if layertype in CONVOLUTIONS:
        return '#FF5050'
    return {'Pooling': '#FF9900', 'InnerProduct': '#CC33FF'}.get(
        layertype, LAYER_STYLE_DEFAULT['fillcolor'])


def _is_in_phase(layer, phase):
    """Whether the phase rules of a layer include it; level and stage are ignored."""
    if phase is None:
        return True
    if any(rule.HasField('phase') and rule.phase == phase for rule in layer.exclude):
        return False
    return not layer.include or any(not rule.HasField('phase') or rule.phase == phase
                                    for rule in layer.include)


def _quoted(text):
    return '"%s"' % _printable(text).replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')


def _record_text(text):
    # These characters have a meaning in a record's label.
    return ''.join('\\' + c if c in '{}|<>' else c for c in text)


def _attributes(attributes):
    return '[%s]' % ', '.join('%s=%s' % item for item in attributes.items())


def net_to_dot(caffe_net, rankdir='LR', label_edges=True, phase=None, display_lrm=False):
    """A NetParameter as text in graphviz's language: layers, blobs, and edges between them."""
    nodes, edges = {}, []
    for layer in caffe_net.layer:
        if not _is_in_phase(layer, phase):
            continue
        in_place = list(layer.bottom) == list(layer.top) and len(layer.bottom) == 1
        style = dict(NEURON_LAYER_STYLE if in_place else LAYER_STYLE_DEFAULT)
        if not in_place:
            style['fillcolor'] = choose_color_by_layertype(layer.type)
        label = _quoted(get_layer_label(layer, rankdir, display_lrm))
        style['label'] = _record_text(label)
        node = 'layer %s %s' % (layer.name, layer.type)
        nodes[node] = style
        for bottom in layer.bottom:
            edges.append((bottom, node, ''))
        for top in layer.top:
            edges.append((node, top, get_edge_label(layer) if label_edges else ''))
        for blob in [*layer.bottom, *layer.top]:
            nodes.setdefault(blob, dict(BLOB_STYLE, label=_quoted(blob)))
    lines = ['digraph %s {' % _quoted(caffe_net.name or 'Net'), '  rankdir=%s;' % rankdir]
    for name, style in nodes.items():
        quoted = {key: value if key == 'label' else _quoted(value) for key, value in style.items()}
        lines.append('  %s %s;' % (_quoted(name), _attributes(quoted)))
    for source, target, label in edges:
        suffix = ' ' + _attributes({'label': _quoted(label)}) if label else ''
        lines.append('  %s -> %s%s;' % (_quoted(source), _quoted(target), suffix))
    return '\n'.join(lines + ['}', ''])


def get_pydot_graph(caffe_net, rankdir, label_edges=True, phase=None, display_lrm=False):
    """The graph as an object of pydotplus or pydot, whichever is installed."""
    text = net_to_dot(caffe_net, rankdir, label_edges, phase, display_lrm)
    try:
        import pydotplus
        return pydotplus.graph_from_dot_data(text)
    except ImportError:
        pass
    try:
        import pydot
    except ImportError:
        raise ImportError('get_pydot_graph needs pydot or pydotplus; draw_net needs neither') from None
    graphs = pydot.graph_from_dot_data(text)
    return graphs[0] if isinstance(graphs, (list, tuple)) else graphs


def draw_net(caffe_net, rankdir, ext='png', phase=None, display_lrm=False):
    """The picture of a NetParameter as bytes, in a format that graphviz knows.

    'dot', 'gv' and 'raw' are graphviz's text, which needs nothing installed.
    """
    text = net_to_dot(caffe_net, rankdir, phase=phase, display_lrm=display_lrm).encode()
    if ext in _TEXT:
        return text
    dot = shutil.which('dot')
    if dot is None:
        raise RuntimeError("a picture (%s) needs graphviz's command dot, which is not installed; "
                           'the formats %s do not need it' % (ext, ', '.join(_TEXT)))
    run = subprocess.run([dot, '-T' + ext], input=text, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    if run.returncode != 0:
        raise RuntimeError('dot -T%s: %s' % (
            ext, _printable(run.stderr.decode(errors='replace').strip())))
    return run.stdout


def draw_net_to_file(caffe_net, filename, rankdir='LR', phase=None, display_lrm=False):
    """Writes the picture of a NetParameter, in the format of the file's extension."""
    name = str(filename)
    if '.' not in name.rsplit('/', 1)[-1]:
        raise ValueError('%s: give a file name with an extension, which selects the format' % name)
    picture = draw_net(caffe_net, rankdir, name.rsplit('.', 1)[1].lower(), phase, display_lrm)
    try:
        with open(filename, 'wb') as file:
            file.write(picture)
    except OSError as error:  # that of a full disk does not name the file
        raise OSError(error.errno, error.strerror, filename) from None
