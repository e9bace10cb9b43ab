// What a constraint costs: compiling a schema, the mask of a place seen for the first time, of one
// seen before, and a whole constrained text. Vocabularies: the bundled one, and 250,000 synthetic
// tokens as large models have them. One core. Every timed mask is checked first.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <random>
#include <set>
#include <string>

#include "base/utf8.h"
#include "grammar/constraints.h"
#include "grammar/json_schema.h"
#include "grammar/token_masks.h"

namespace kv8 {
namespace {

constexpr auto kSchema = R"({"type":"object","properties":{
  "name":{"type":"string"},"summary":{"type":"string","maxLength":200},
  "kind":{"enum":["bug","feature","question"]},"score":{"type":"integer","minimum":0,"maximum":100},
  "tags":{"type":"array","items":{"type":"string","maxLength":20}},
  "owner":{"type":"object","properties":{"id":{"type":"string","format":"uuid"},
    "email":{"type":"string","format":"email"}},"required":["id"]}},
  "required":["name","kind","owner"]})";

constexpr auto kText =
    R"({"name": "A slow start", "summary": "It takes 12 seconds, and \"nothing\" is shown.", )"
    R"("kind": "bug", "score": 87, "tags": ["cpu", "start"], )"
    R"("owner": {"id": "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "email": "a.b@example.com"}})";

/// All bytes, then words of letters with and without a space, some with marks after them, and a
/// third in other scripts: lengths as in a vocabulary of a large model.
TokenTrie SyntheticTrie() {
  constexpr std::size_t kTokens = 250'000;
  std::vector<std::string> tokens;
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::mt19937 random(1);
  static constexpr std::string_view kMarks[] = {"\"", "\",", "\":", "()", ".", "\n", "_", "1"};
  while (tokens.size() < kTokens) {
    std::string token = random() % 2 == 0 ? " " : "";
    const std::size_t length = 2 + random() % 8;
    const bool other_script = random() % 3 == 0;
    for (std::size_t i = 0; i < length; ++i) {
      const auto common = static_cast<char32_t>(std::min(random() % 26, random() % 26));
      if (!other_script) token += static_cast<char>('a' + common);
      if (other_script && i % 2 == 0) AppendUtf8(0x4E00 + common * 200 + random() % 200, token);
    }
    if (random() % 10 == 0) token += kMarks[random() % std::size(kMarks)];
    if (seen.insert(token).second) tokens.push_back(std::move(token));
  }
  return TokenTrie(std::move(tokens));
}

const TokenTrie& TrieOf(bool synthetic) {
  static const TokenTrie bundled = TokenTrie::Of(
      Tokenizer::Load(std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp/tokenizer.json")
          .value());
  static const TokenTrie large = SyntheticTrie();
  return synthetic ? large : bundled;
}

Program CompileText(const char* schema) {
  return CompileJsonSchema(ParseOrderedJson(schema, "bench").value()).value();
}

std::vector<std::uint64_t> EmptyMask(const TokenTrie& trie) {
  return std::vector<std::uint64_t>(MaskWords(static_cast<std::int64_t>(trie.vocab())));
}

/// Whether the mask after `text` is right for every token.
bool IsRight(const TokenTrie& trie, const Program& program, std::string_view text) {
  Machine machine(program);
  TokenMasks masks(trie, machine);
  const StateId state = machine.Run(machine.start(), text);
  const std::vector<std::uint64_t> mask = *masks.Find(state);
  for (std::size_t id = 0; id < trie.vocab(); ++id) {
    const std::string_view bytes = trie.Bytes(static_cast<TokenId>(id));
    const bool allowed = !bytes.empty() && machine.Run(state, bytes) != kDeadState;
    if (allowed != ((mask[id / 64] >> (id % 64) & 1) != 0)) return false;
  }
  return true;
}

void Compile(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(CompileText(kSchema));
}
BENCHMARK(Compile)->Unit(benchmark::kMicrosecond);

/// The first mask of a grammar inside of a string: nothing is known, and most tokens are allowed.
void FirstStringMask(benchmark::State& state) {
  const TokenTrie& trie = TrieOf(state.range(0) != 0);
  const Program program = CompileText(kSchema);
  constexpr std::string_view kPrefix = R"({"name":"A)";
  if (!IsRight(trie, program, kPrefix)) return state.SkipWithError("wrong mask");
  for (auto _ : state) {
    Machine machine(program);
    TokenMasks masks(trie, machine);
    benchmark::DoNotOptimize(masks.Find(machine.Run(machine.start(), kPrefix)));
  }
}
BENCHMARK(FirstStringMask)->ArgName("large")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

/// A string in a place that is new, after a string was seen elsewhere: depth after depth.
void StringMaskInANewPlace(benchmark::State& state) {
  const TokenTrie& trie = TrieOf(state.range(0) != 0);
  const Program program = CompileJsonObject().value();
  if (!IsRight(trie, program, R"({"a":["b)")) return state.SkipWithError("wrong mask");
  Machine machine(program);
  TokenMasks masks(trie, machine);
  std::string prefix = R"({"a":)";
  masks.Find(machine.Run(machine.start(), prefix + "\"x"));
  for (auto _ : state) {
    state.PauseTiming();
    prefix.push_back('[');
    if (prefix.size() > 200) prefix = R"({"a":)" + std::string(prefix.size() % 7, '[');
    const StateId place = machine.Run(machine.start(), prefix + "\"x");
    state.ResumeTiming();
    benchmark::DoNotOptimize(masks.Find(place));
  }
}
BENCHMARK(StringMaskInANewPlace)
    ->ArgName("large")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(190)
    ->Unit(benchmark::kMicrosecond);

/// Per token of a whole text, masks included; `fresh`: with a grammar that was never used.
void WholeText(benchmark::State& state) {
  const TokenTrie& trie = TrieOf(state.range(0) != 0);
  const bool fresh = state.range(1) != 0;
  const Program program = CompileText(kSchema);
  const std::string_view text = kText;
  const auto shared = std::make_shared<const TokenTrie>(trie);
  auto matcher = Matcher::Make(program, shared).value();
  std::vector<std::uint64_t> mask = EmptyMask(trie);
  std::int64_t tokens = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (fresh) matcher = Matcher::Make(program, shared).value();
    state.ResumeTiming();
    const auto place = matcher->Start();
    for (std::size_t at = 0; at < text.size(); ++tokens) {
      place->FillMask(mask);
      // The longest allowed token that the text goes on with.
      TokenId best = -1;
      std::uint32_t node = 0;
      for (std::size_t end = at; end < text.size(); ++end) {
        const auto nodes = trie.common().nodes();
        std::uint32_t child = node + 1;
        while (child < nodes[node].end &&
               nodes[child].byte != static_cast<std::uint8_t>(text[end])) {
          child = nodes[child].end;
        }
        if (child >= nodes[node].end) break;
        node = child;
        if (!trie.common().TokensAt(node).empty()) best = trie.common().TokensAt(node).front();
      }
      if (best < 0 || !place->Accept(best)) return state.SkipWithError("the text does not match");
      at += trie.Bytes(best).size();
    }
  }
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(tokens), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(WholeText)
    ->ArgNames({"large", "fresh"})
    ->Args({0, 1})
    ->Args({0, 0})
    ->Args({1, 1})
    ->Args({1, 0})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kv8
