// The part of the CUDA driver's C interface that kv8 calls, found when the program runs: building
// needs no toolkit, and a machine without a driver runs everything else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// CUresult, with the values that kv8 tells apart.
enum class DriverStatus : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kStubLibrary = 34,
  kDevicesUnavailable = 46,
  kNoDevice = 100,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kUnsupportedPtxVersion = 222,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kAssert = 710,
  kLaunchFailed = 719,
  kSystemDriverMismatch = 803,
};

/// CUdevice_attribute.
enum class DriverAttribute : int {
  kMultiprocessors = 16,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMaxSharedBytes = 97,  // ..._MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
};

/// CUfunction_attribute.
enum class DriverFunctionAttribute : int {
  kMaxThreads = 0,             // ..._MAX_THREADS_PER_BLOCK
  kCodeArchitecture = 5,       // ..._PTX_VERSION: 10 * major + minor that the code was compiled for
  kDynamicSharedBytesMax = 8,  // ..._MAX_DYNAMIC_SHARED_SIZE_BYTES
};

/// CUlaunchAttribute, of those whose value is an int.
struct alignas(8) DriverLaunchAttribute {
  enum class Id : int { kBeginsEarly = 6 };  // ..._PROGRAMMATIC_STREAM_SERIALIZATION
  Id id;
  int padding = 0;
  int value[16] = {};
};
static_assert(sizeof(DriverLaunchAttribute) == 72);

/// CUlaunchConfig.
struct DriverLaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  DriverLaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(DriverLaunchConfig) == 56);

/// Calls of libcuda.so.1. Handles of contexts, streams, events, graphs, modules and functions are
/// void*, device addresses are void*, devices are int: the same sizes as in the driver's header.
struct DriverApi {
  using S = DriverStatus;
  S (*init)(unsigned flags);
  S (*driver_version)(int* version);
  S (*error_name)(S status, const char** name);
  S (*error_text)(S status, const char** text);
  S (*device_count)(int* count);
  S (*device_get)(int* device, int ordinal);
  S (*device_name)(char* name, int length, int device);
  S (*device_memory)(std::size_t* bytes, int device);
  S (*device_attribute)(int* value, DriverAttribute attribute, int device);
  S (*context_retain)(void** context, int device);
  S (*context_release)(int device);
  S (*context_set)(void* context);
  S (*memory_info)(std::size_t* free, std::size_t* total);
  S (*memory_allocate)(void** address, std::size_t bytes);
  S (*memory_free)(void* address);
  S (*host_allocate)(void** address, std::size_t bytes);
  S (*host_free)(void* address);
  S (*copy)(void* to, const void* from, std::size_t bytes, void* stream);
  S (*fill)(void* to, unsigned char value, std::size_t bytes, void* stream);
  S (*stream_create)(void** stream, unsigned flags);
  S (*stream_destroy)(void* stream);
  S (*stream_synchronize)(void* stream);
  S (*capture_begin)(void* stream, int mode);
  S (*capture_end)(void* stream, void** graph);
  S (*graph_instantiate)(void** executable, void* graph, unsigned long long flags);
  S (*graph_destroy)(void* graph);
  S (*graph_launch)(void* executable, void* stream);
  S (*executable_destroy)(void* executable);
  S (*event_create)(void** event, unsigned flags);
  S (*event_destroy)(void* event);
  S (*event_record)(void* event, void* stream);
  S (*event_synchronize)(void* event);
  S (*event_elapsed)(float* milliseconds, void* start, void* end);
  S (*module_load)(void** module, const void* image);
  S (*module_unload)(void* module);
  S (*module_function)(void** function, void* module, const char* name);
  S (*function_get)(int* value, DriverFunctionAttribute attribute, void* function);
  S (*function_set)(void* function, DriverFunctionAttribute attribute, int value);
  S (*launch)(const DriverLaunchConfig* config, void* function, void** parameters, void** extra);
};

/// The oldest driver that runs the code of this build: 1000 * major + 10 * minor.
inline constexpr int kOldestDriver = 12000;
/// The oldest architecture kv8 has code for.
inline constexpr int kOldestArchitecture = 70;

/// Loads the driver once per process. Errors: kUnsupported: none installed, or too old.
Result<const DriverApi*> LoadDriver();

/// Whether a kernel begins before the one in front of it has ended, in a captured graph too. That
/// is a question of what its code was compiled for and not of the device: code for older
/// architectures cannot wait, and runs on new devices too.
constexpr bool BeginsEarly(int driver_version, int code_architecture) {
  return driver_version >= 12030 && code_architecture >= 90;
}

/// kUnsupported below kOldestDriver.
Result<void> CheckDriverVersion(int version);
/// kUnsupported below kOldestArchitecture, naming the device.
Result<void> CheckArchitecture(std::string_view device, int architecture);

/// `status` of a failed call as an Error: kIo when the device is lost (every later call then fails
/// likewise), kUnsupported for code it cannot run, else kIo. `action`: "copy 12 bytes".
Error DriverError(const DriverApi& driver, DriverStatus status, std::string_view action);

/// Success, or DriverError.
Result<void> Check(const DriverApi& driver, DriverStatus status, std::string_view action);

}  // namespace kv8
