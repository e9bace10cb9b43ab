#include "model/forward.h"

namespace kv8 {
namespace {

Result<void> RunAttention(Steps& steps, const QsaLayerWeights& weights, const LayerSpec& layer) {
  KV8_RETURN_IF_ERROR(steps.ProjectAttention(weights));
  KV8_RETURN_IF_ERROR(steps.StoreKeyValue(weights, layer));
  KV8_RETURN_IF_ERROR(steps.ObserveKeyValue(layer));
  return steps.Attend(weights, layer);
}

Result<void> RunLayer(Steps& steps, const LayerWeights& weights) {
  const LayerSpec& layer = weights.spec;
  if (weights.ple) KV8_RETURN_IF_ERROR(steps.NgramMemory(*weights.ple, layer));

  KV8_RETURN_IF_ERROR(steps.Mix(weights.attention_connection));
  KV8_RETURN_IF_ERROR(weights.gdn ? steps.Gdn(*weights.gdn, layer)
                                  : RunAttention(steps, *weights.qsa, layer));
  KV8_RETURN_IF_ERROR(steps.Reduce());
  KV8_RETURN_IF_ERROR(steps.Combine());

  KV8_RETURN_IF_ERROR(steps.Mix(weights.mlp_connection));
  KV8_RETURN_IF_ERROR(steps.Experts(weights.moe));
  KV8_RETURN_IF_ERROR(steps.Reduce());
  KV8_RETURN_IF_ERROR(steps.Combine());
  return steps.ObserveStreams(layer);
}

}  // namespace

Result<void> RunTarget(Steps& steps, const ModelWeights& weights) {
  KV8_RETURN_IF_ERROR(steps.Embed(weights.embed));
  for (const LayerWeights& layer : weights.layers) KV8_RETURN_IF_ERROR(RunLayer(steps, layer));
  return steps.Finish();
}

Result<void> RunDraft(Steps& steps, const ModelWeights& weights) {
  KV8_RETURN_IF_ERROR(steps.EmbedNext(weights.embed));
  KV8_RETURN_IF_ERROR(steps.ProjectEmbedding(*weights.mtp));
  KV8_RETURN_IF_ERROR(steps.ProjectStreams(*weights.mtp));
  KV8_RETURN_IF_ERROR(steps.AddEmbedding());
  KV8_RETURN_IF_ERROR(RunLayer(steps, weights.mtp->layer));
  return steps.Finish();
}

Result<void> RunHead(Steps& steps, const HyperConnectionWeights& mixer, const Weight& head) {
  KV8_RETURN_IF_ERROR(steps.Mix(mixer));
  return steps.Head(head);
}

}  // namespace kv8
