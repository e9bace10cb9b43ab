// The ops of the model on a CUDA device.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "device/device.h"
#include "kv8/error.h"
#include "ops/cuda/argmax.h"
#include "ops/cuda/choose_tokens.h"
#include "ops/cuda/dense.h"
#include "ops/cuda/gdn.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/kv_observe.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/moe.h"
#include "ops/cuda/ple.h"
#include "ops/cuda/prompt_attention.h"
#include "ops/cuda/qsa_store.h"
#include "ops/cuda/select_blocks.h"
#include "ops/cuda/slots.h"
#include "ops/cuda/sparse_attention.h"

namespace kv8::cuda {

/// Which of the embedded code runs.
enum class CodeChoice {
  kForDevice,  // what was compiled for the device's architecture
  kSm70,       // the V100's code, whatever the device: how it is tested without one
};

/// All kernels, loaded onto one device. Every op only enqueues: no allocation, no wait, and all
/// addresses are read when the kernel runs, so calls can be captured in a graph.
///
/// Errors of every op: kUnsupported for dimensions that the kernels do not have (the limits stand
/// in the op's header), naming both; those of DeviceStream::Launch.
class CudaOps {
 public:
  /// Errors: kUnsupported when the build holds no code for this choice.
  static Result<CudaOps> Load(Device& device, CodeChoice choice = CodeChoice::kForDevice);

  Result<void> Embed(DeviceStream& stream, const EmbedArgs& args) const;
  Result<void> Ple(DeviceStream& stream, const PleArgs& args) const;
  Result<void> GroupedNorm(DeviceStream& stream, const GroupedNormArgs& args) const;
  Result<void> RoundRows(DeviceStream& stream, const RoundArgs& args) const;
  Result<void> Linear(DeviceStream& stream, LinearArgs args) const;
  Result<void> HyperMix(DeviceStream& stream, const HyperMixArgs& args) const;
  Result<void> HyperCombine(DeviceStream& stream, const HyperCombineArgs& args) const;
  Result<void> Moe(DeviceStream& stream, MoeArgs args) const;
  Result<void> Argmax(DeviceStream& stream, const ArgmaxArgs& args) const;
  Result<void> ChooseTokens(DeviceStream& stream, const ChooseTokensArgs& args) const;
  Result<void> KvObserve(DeviceStream& stream, const KvObserveArgs& args) const;
  Result<void> QsaStore(DeviceStream& stream, const QsaStoreArgs& args) const;
  Result<void> SelectBlocks(DeviceStream& stream, SelectBlocksArgs args) const;
  Result<void> SparseAttention(DeviceStream& stream, const SparseAttentionArgs& args) const;
  Result<void> PromptAttention(DeviceStream& stream, PromptAttentionArgs args) const;
  Result<void> Gdn(DeviceStream& stream, const GdnArgs& args) const;
  Result<void> GdnPrefill(DeviceStream& stream, const GdnArgs& args) const;
  Result<void> CopyItems(DeviceStream& stream, const CopyItemsArgs& args) const;

 private:
  CudaOps() = default;
  Result<void> GdnConvolve(DeviceStream& stream, const GdnArgs& args) const;
  Result<void> HyperUp(DeviceStream& stream, const HyperMixArgs& args) const;
  Result<void> CheckMoe(const MoeArgs& args) const;
  Result<void> Route(DeviceStream& stream, const MoeArgs& args) const;
  Result<void> Experts(DeviceStream& stream, const MoeArgs& args) const;
  /// For `rows` rows and `weight_tiles` times kTileRows weight rows.
  TileShape ChooseTile(std::int64_t weight_tiles, std::int64_t rows, int parts) const;
  TileShape ExpertTileOf(std::int64_t mean_pairs, int parts) const;
  /// Of `columns` activation rows, or as many as there is room for.
  TileShape MakeTile(std::int32_t columns, int parts) const;
  /// As many thread blocks as there is room for, at most one for each tile.
  LaunchShape TileLaunch(std::int64_t tiles, const TileShape& tile, int parts) const;
  const DeviceKernel& Get(KernelId id) const { return kernels_[static_cast<std::size_t>(id)]; }
  /// Errors: kUnsupported for a format that the form does not have.
  Result<const DeviceKernel*> Product(std::string_view op, ProductForm form,
                                      WeightFormat format) const;

  std::vector<DeviceModule> modules_;
  std::array<DeviceKernel, kKernelCount> kernels_;
  std::array<DeviceKernel, kProductKernelCount> products_;  // by place in kProductKernels
  bool run_ahead_ = false;  // the code starts copies before it needs them: from sm_80 on
  int tile_threads_ = 0;    // of a thread block of tiles: which form this code has
  int max_shared_bytes_ = 0;
  int multiprocessors_ = 0;
};

}  // namespace kv8::cuda
