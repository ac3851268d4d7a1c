"""Weights that a net does not get, and files whose names hold commas and blanks."""
import numpy as np
import pytest
from google.protobuf import text_format

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2

caffe.set_device('cpu')


SHARED = 'param { name: "w" } param { name: "b" }'


def inner(name, bottom, more=''):
    return ('layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s" %s inner_product_param '
            '{ num_output: 3 weight_filler { type: "gaussian" std: 1 } } }'
            % (name, bottom, name, more))


def make(*layers, **more):
    """A net of these layers behind an Input d of shape (2, 3)."""
    text = 'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 2 dim: 3 } } }'
    return caffe.Net(text_format.Parse(text + ''.join(layers), caffe_pb2.NetParameter()), 'TEST',
                     **more)


def weights(net):
    return {name: [blob.data.copy() for blob in blobs] for name, blobs in net.params.items()}


def equal(one, two):
    return one.keys() == two.keys() and all(
        np.array_equal(a, b) for name in one for a, b in zip(one[name], two[name]))


def warnings_of(capfd, call):
    """The warnings in the log of the call."""
    capfd.readouterr()
    call()
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith('W')]


@pytest.fixture(params=['w.caffemodel', 'w.h5'])
def path(request, tmp_path):
    return str(tmp_path / request.param)


def test_a_layer_that_the_file_lacks_is_named_with_the_nearest_name(path, capfd):
    make(inner('first', 'd'), inner('second', 'first')).save(path)
    net = make(inner('first', 'd'), inner('secnod', 'first'))
    before = weights(net)
    said, = warnings_of(capfd, lambda: net.copy_from(path))
    assert path + " has no parameters for layer 'secnod' (InnerProduct; did you mean 'second'?)" \
        in said
    assert np.array_equal(net.params['secnod'][0].data, before['secnod'][0])
    assert not np.array_equal(net.params['first'][0].data, before['first'][0])


def test_a_name_that_is_not_near_is_found_by_its_shapes(path, capfd):
    make(inner('ip', 'd')).save(path)
    said, = warnings_of(capfd, lambda: make(inner('ip_typo', 'd'), weights=path))
    assert "did you mean 'ip'?" in said and 'nothing was copied' in said
    # A layer that is renamed to train it again has other shapes: no name is suggested.
    renamed = inner('ip_mine', 'd').replace('num_output: 3', 'num_output: 5')
    said, = warnings_of(capfd, lambda: make(renamed, weights=path))
    assert 'did you mean' not in said


def test_weights_that_fit_are_no_warning(path, capfd):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[3, 2, 4]))
    spec.cont = L.Input(shape=dict(dim=[3, 2]))
    spec.lstm = L.LSTM(spec.data, spec.cont, recurrent_param=dict(
        num_output=4, weight_filler=dict(type='gaussian')))
    net = caffe.Net(spec.to_proto(), 'TEST')
    net.save(path)
    assert warnings_of(capfd, lambda: net.copy_from(path, strict=True)) == []
    net = make(inner('a', 'd', SHARED), inner('b', 'a', SHARED))
    net.save(path)
    assert warnings_of(capfd, lambda: net.copy_from(path, strict=True)) == []
    gating, expert, spec = NetSpec(), NetSpec(), NetSpec()
    gating.x = L.Input(shape=dict(dim=[1, 8]))
    gating.score = L.InnerProduct(gating.x, num_output=3)
    gating.gate = L.Softmax(gating.score)
    expert.x = L.Input(shape=dict(dim=[1, 8]))
    expert.out = L.InnerProduct(expert.x, num_output=2)
    spec.data = L.Input(shape=dict(dim=[4, 8]))
    spec.moe = L.MOE(spec.data, gating=gating, expert=expert, experts=3, select=2)
    net = caffe.Net(spec.to_proto(), 'TEST')
    net.save(path)
    assert warnings_of(capfd, lambda: net.copy_from(path, strict=True)) == []


def test_strict_is_an_error_that_changes_nothing(path):
    make(inner('a', 'd'), inner('b', 'a')).save(path)
    more = make(inner('a', 'd'), inner('b', 'a'), inner('c', 'b'))
    before = weights(more)
    with pytest.raises(RuntimeError, match=r"has no parameters for layer 'c' \(InnerProduct\)"):
        more.copy_from(path, strict=True)
    assert equal(weights(more), before)
    fewer = make(inner('a', 'd'))
    before = weights(fewer)
    with pytest.raises(RuntimeError, match="has parameters that no layer takes: those of 'b'"):
        fewer.copy_from(path, strict=True)
    assert equal(weights(fewer), before)
    with pytest.raises(RuntimeError, match="layer 'c'"):
        make(inner('c', 'd'), weights=path, strict=True)
    make(inner('a', 'd'), inner('b', 'a'), weights=path, strict=True)
    with pytest.raises(ValueError, match='there are no weights'):
        make(inner('a', 'd'), strict=True)


def test_load_hdf5_is_strict_too(tmp_path):
    make(inner('a', 'd')).save_hdf5(tmp_path / 'a.h5')
    net = make(inner('a', 'd'), inner('b', 'a'))
    with pytest.raises(RuntimeError, match="no parameters for layer 'b'"):
        net.load_hdf5(tmp_path / 'a.h5', strict=True)
    net.load_hdf5(tmp_path / 'a.h5')


def test_files_of_a_list_are_judged_together(tmp_path, capfd):
    one, two = make(inner('a', 'd')), make(inner('b', 'd'))
    files = [str(tmp_path / 'one.caffemodel'), str(tmp_path / 'two.h5')]
    one.save(files[0])
    two.save(files[1])
    net = make(inner('a', 'd'), inner('b', 'a'))
    assert warnings_of(capfd, lambda: net.copy_from(files, strict=True)) == []
    assert np.array_equal(net.params['a'][0].data, one.params['a'][0].data)
    assert np.array_equal(net.params['b'][0].data, two.params['b'][0].data)
    assert equal(weights(make(inner('a', 'd'), inner('b', 'a'), weights=files)), weights(net))
    # The second file replaces the first one's weights; neither changes a net that one does not fit.
    make(inner('a', 'd'), inner('b', 'a')).save(files[0])
    net.copy_from(files)
    assert np.array_equal(net.params['b'][0].data, two.params['b'][0].data)
    before = weights(net)
    make(inner('b', 'd').replace('num_output: 3', 'num_output: 4')).save(files[1])
    with pytest.raises(RuntimeError, match="layer 'b', parameter 0"):
        net.copy_from(files)
    assert equal(weights(net), before)
    with pytest.raises(ValueError, match='the list of files is empty'):
        net.copy_from([])


@pytest.mark.parametrize('load', [lambda net, path: net.copy_from(path),
                                  lambda net, path: net.load_hdf5(path)])
def test_hdf5_of_shared_parameters_and_nets_that_do_not_share(tmp_path, load):
    stored = make(inner('b', 'd', SHARED), inner('a', 'b', SHARED))
    path = str(tmp_path / 's.h5')
    stored.save_hdf5(path)
    w = stored.params['b'][0].data
    unshared = make(inner('b', 'd'), inner('a', 'b'))
    before = weights(unshared)
    with pytest.raises(RuntimeError, match="no parameter 0 of layer 'a'.*stores each of them once"):
        load(unshared, path)
    assert equal(weights(unshared), before)
    with pytest.raises(RuntimeError, match="no parameter 0 of layer 'a'"):  # one tower only
        load(make(inner('a', 'd')), path)
    # Owners in another order, and a layer that comes later: it is shared with a layer of the file.
    other = make(inner('c', 'd', SHARED), inner('a', 'c', SHARED), inner('b', 'a', SHARED))
    load(other, path)
    for name in 'abc':
        assert np.array_equal(other.params[name][0].data, w)


def test_a_file_of_layers_in_groups_of_others(tmp_path):
    """Layer x shares its parameters, and its group holds that of layer x/y."""
    stored = make(inner('b', 'd', SHARED), inner('x', 'b', SHARED), inner('x/y', 'x'))
    stored.save_hdf5(tmp_path / 's.h5')
    with pytest.raises(RuntimeError, match="no parameter 0 of layer 'x'"):
        make(inner('b', 'd'), inner('x', 'b'), inner('x/y', 'x')).load_hdf5(tmp_path / 's.h5')


NAMES = ['a,b', ' begins with a blank', 'ends with one ', ',', 'x,', "quote's", 'lr=0.1,m=0.9']


@pytest.mark.parametrize('name', NAMES)
def test_a_path_may_hold_any_character(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    net = make(inner('ip', 'd'))
    for path in (name, name + '.caffemodel', name + '.h5'):
        net.save(path)
        assert equal(weights(make(inner('ip', 'd'), weights=path)), weights(net))
        other = make(inner('ip', 'd'))
        other.copy_from(path)
        assert equal(weights(other), weights(net))
    other = make(inner('ip', 'd'))
    other.load_hdf5(name + '.h5')
    assert equal(weights(other), weights(net))
    (tmp_path / 'net.prototxt').write_text(
        'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 2 dim: 3 } } }'
        + inner('ip', 'd'))
    caffe.transform(('net.prototxt', name), passes='strip', out=name + 'out')
    assert (tmp_path / (name + 'out.caffemodel')).exists()


def test_a_comma_does_not_divide_a_path(tmp_path):
    net = make(inner('ip', 'd'))
    net.save(tmp_path / 'a')
    net.save(tmp_path / 'b')
    with pytest.raises(RuntimeError, match='File not found: .*a,.*b'):
        net.copy_from('%s,%s' % (tmp_path / 'a', tmp_path / 'b'))


def test_save_writes_hdf5_for_that_ending(tmp_path):
    make(inner('ip', 'd')).save(tmp_path / 'w.h5')
    assert (tmp_path / 'w.h5').read_bytes().startswith(b'\x89HDF')


@pytest.mark.parametrize('names, fault', [
    (['', 'b'], 'has no name'), (['.', 'b'], "ignores the part '.'"), (['x//y', 'b'], 'slashes'),
    (['/x', 'b'], 'slashes'), (['x/', 'b'], 'slashes'), (['a/./b', 'c'], "ignores the part '.'"),
    (['a', 'a/0'], 'path of a parameter'), (['a/1/c', 'a'], 'path of a parameter'),
    (['a', 'a'], "two layers with parameters are called 'a'"), (['/'.join('a' * 101), 'b'], 'nested')])
def test_hdf5_that_could_not_be_read_back_is_not_written(tmp_path, names, fault):
    first, second = (inner(name, 'd').replace('top: "%s"' % name, 'top: "t%d"' % i)
                     for i, name in enumerate(names))
    net = make(first, second)
    with pytest.raises(RuntimeError, match=fault):
        net.save_hdf5(tmp_path / 'w.h5')
    assert list(tmp_path.iterdir()) == []
    net.save(tmp_path / 'w.caffemodel')


def test_two_layers_of_one_name_are_a_warning(capfd):
    twice = inner('ip', 'd') + inner('ip', 'd').replace('top: "ip"', 'top: "other"')
    said, = warnings_of(capfd, lambda: make(twice))
    assert "2 layers are called 'ip'" in said
    assert warnings_of(capfd, lambda: make(inner('ip', 'd'))) == []
