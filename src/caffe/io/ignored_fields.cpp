#include "caffe/io/ignored_fields.hpp"

#include <algorithm>
#include <array>

namespace caffe {
namespace {

struct Field {
  std::string_view message, name;
  std::string_view note = "does not change the result and is ignored";
};

constexpr std::string_view kTypes =
    "sets types of arithmetic and is ignored; data_type sets them here (docs/types.md)";
constexpr std::string_view kScale =
    "scales gradients and is ignored; loss_scale of the solver does that here";
constexpr std::string_view kSeed =
    "seeds random numbers and is ignored; those of Cortado differ anyway";
constexpr std::array kIgnored{
    // NVIDIA Caffe: types of arithmetic and storage, loss scaling, algorithm choice, buckets.
    Field{"caffe.NetParameter", "default_forward_type", kTypes},
    Field{"caffe.NetParameter", "default_backward_type", kTypes},
    Field{"caffe.NetParameter", "default_forward_math", kTypes},
    Field{"caffe.NetParameter", "default_backward_math", kTypes},
    Field{"caffe.NetParameter", "global_grad_scale", kScale},
    Field{"caffe.NetParameter", "global_grad_scale_adaptive", kScale},
    Field{"caffe.NetParameter", "default_conv_algos_override"},
    Field{"caffe.NetParameter", "default_cudnn_math_override"},
    Field{"caffe.NetParameter", "reduce_buckets"},
    Field{"caffe.NetParameter", "eltwise_mem_sharing"},
    Field{"caffe.SolverParameter", "solver_data_type", kTypes},
    Field{"caffe.SolverParameter", "store_blobs_in_old_format"},
    Field{"caffe.LayerParameter", "forward_type", kTypes},
    Field{"caffe.LayerParameter", "backward_type", kTypes},
    Field{"caffe.LayerParameter", "forward_math", kTypes},
    Field{"caffe.LayerParameter", "backward_math", kTypes},
    Field{"caffe.LayerParameter", "debug"},
    Field{"caffe.LayerParameter", "cudnn_math_override"},
    Field{"caffe.ConvolutionParameter", "cudnn_convolution_algo_seeker"},
    Field{"caffe.ConvolutionParameter", "conv_algos_override"},
    Field{"caffe.DropoutParameter", "engine"},
    // NVIDIA Caffe: reader threads and caches; random seeds, since random streams differ anyway.
    Field{"caffe.DropoutParameter", "random_seed", kSeed},
    Field{"caffe.DataParameter", "threads"},
    Field{"caffe.DataParameter", "parser_threads"},
    Field{"caffe.DataParameter", "cache"},
    Field{"caffe.DataParameter", "precache"},
    Field{"caffe.ImageDataParameter", "threads"},
    Field{"caffe.ImageDataParameter", "cache"},
    Field{"caffe.ImageDataParameter", "precache"},
    Field{"caffe.ImageDataParameter", "dataset_share_per_node"},
    Field{"caffe.TransformationParameter", "use_gpu_transform"},
    Field{"caffe.TransformationParameter", "random_seed", kSeed},
    Field{"caffe.TransformationParameter", "display"},
    Field{"caffe.TransformationParameter", "forward_packing"},
    // Intel Caffe: engines, graph compilation, distribution.
    Field{"caffe.NetParameter", "engine"},
    Field{"caffe.NetParameter", "compile_net_state"},
    Field{"caffe.NetParameter", "multinode"},
    Field{"caffe.SolverParameter", "engine"},
    Field{"caffe.LayerParameter", "engine"},
    Field{"caffe.LayerParameter", "multinode"},
    Field{"caffe.LayerParameter", "mn_grad_compress_param"},
    Field{"caffe.LayerParameter", "split_param"},
    Field{"caffe.ConvolutionParameter", "conv_algorithm"},
    Field{"caffe.BatchNormParameter", "engine"},
    Field{"caffe.ConcatParameter", "engine"},
    Field{"caffe.ConcatParameter", "per_fla_fuse"},
    Field{"caffe.EltwiseParameter", "engine"},
    Field{"caffe.InnerProductParameter", "engine"},
};

}  // namespace

std::string_view IgnoredFieldNote(std::string_view message, std::string_view field) {
  const auto found = std::ranges::find_if(kIgnored, [&](const Field& known) {
    return known.message == message && known.name == field;
  });
  return found == kIgnored.end() ? "" : found->note;
}

}  // namespace caffe
