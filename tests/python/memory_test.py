"""net.memory and solver.memory: what a net needs, before anything is allocated."""
import numpy as np
import pytest

import caffe

TEXT = '''
name: 'small'
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 8 dim: 16 } } }
layer { name: 'target' type: 'Input' top: 'target' input_param { shape { dim: 8 dim: 4 } } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'
        inner_product_param { num_output: 32 weight_filler { type: 'xavier' } } }
layer { name: 'tanh' type: 'TanH' bottom: 'ip1' top: 'tanh' %s }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'tanh' top: 'ip2'
        inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip2' bottom: 'target' top: 'loss' }
'''


def solver(tmp_path, more=''):
    (tmp_path / 'net.prototxt').write_text(TEXT % more)
    (tmp_path / 'solver.prototxt').write_text(
        "net: '%s' base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 "
        'snapshot_after_train: false' % (tmp_path / 'net.prototxt'))
    made = caffe.get_solver(str(tmp_path / 'solver.prototxt'))
    made.frees_memory = True
    made.net.blobs['data'].data[...] = np.linspace(-1, 1, 128).reshape(8, 16)
    return made


def test_the_parts_add_up(tmp_path):
    made = solver(tmp_path)
    memory, of_solver = made.net.memory, made.memory
    assert list(memory) == ['weights', 'derived_weights', 'activations', 'diffs', 'workspace',
                            'total']
    assert memory['total'] == sum(memory.values()) - memory['total']
    parameters = 4 * (16 * 32 + 32 + 32 * 4 + 4)
    assert memory['weights'] == of_solver['history'] == parameters
    assert memory['diffs'] >= parameters
    assert of_solver['total'] == memory['total'] + parameters


def test_a_step_frees_what_no_layer_needs(tmp_path):
    made = solver(tmp_path)
    made.step(1)
    assert made.net.blobs['loss'].data.shape == ()
    with pytest.raises(RuntimeError, match=r"blob ip1 .* net\.keep\('ip1'\)"):
        made.net.blobs['ip1'].data
    with pytest.raises(RuntimeError, match=r"gradient of blob tanh .* net\.keep\('tanh'\)"):
        made.net.blobs['tanh'].diff
    made.net.keep('ip1', 'tanh')
    made.step(1)
    assert np.abs(made.net.blobs['tanh'].diff).sum() > 0
    np.testing.assert_allclose(np.tanh(made.net.blobs['ip1'].data), made.net.blobs['tanh'].data,
                               rtol=1e-5, atol=1e-6)


def test_without_being_asked_a_step_keeps_every_blob(tmp_path):
    made = solver(tmp_path)
    made.frees_memory = False
    made.step(1)
    for name, blob in made.net.blobs.items():
        assert np.isfinite(blob.data).all() and np.isfinite(blob.diff).all(), name


def test_passes_of_a_script_store_every_blob(tmp_path):
    made = solver(tmp_path)
    made.step(2)
    made.net.forward()
    made.net.backward()
    for name, blob in made.net.blobs.items():
        assert np.isfinite(blob.data).all() and np.isfinite(blob.diff).all(), name


def test_recompute_gives_the_same_weights(tmp_path):
    weights = []
    for more in ('', 'recompute: true'):
        made = solver(tmp_path, more)
        made.step(5)
        weights.append(made.net.params['ip1'][0].data.copy())
    np.testing.assert_array_equal(*weights)
