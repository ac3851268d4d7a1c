"""Intel's OpenCL runtime for processors, from PyPI, which driver_test.sh installs into the build folder."""
from drivers import SHIM, needs_build, passed_rows

pytestmark = needs_build


def test_it_passes_the_self_test_and_the_tests_of_products(tmp_path):
    rows = passed_rows('intel', tmp_path, 'self_test library second_start',
                       DRIVER_TYPES='float half quant8')
    assert rows > 500


def test_as_a_gpu_of_small_groups(tmp_path):
    """It multiplies four bytes at a time there, and the shim refuses options that it must not know."""
    rows = passed_rows('intel', tmp_path, 'self_test', DRIVER_TYPES='half quant8', LD_PRELOAD=SHIM,
                       CAFFE_SHIM='type=gpu,group=128,fp64=0,denormals=0,rounding=0,strict=1')
    assert rows > 250
