# Device code: compiled apart from the host's, embedded as bytes, loaded through the driver.
#
#   KV8_CUDA       OFF, ON (fail without nvcc) or AUTO (use it when it is there)
#   KV8_CUDA_SM70  also embed V100 code from build/device, which scripts/compile_device.py writes;
#                  needed with toolkits from 13.0 on, which have no sm_70
set(KV8_CUDA OFF CACHE STRING "Device code for NVIDIA GPUs: OFF, ON or AUTO")
set_property(CACHE KV8_CUDA PROPERTY STRINGS OFF ON AUTO)
option(KV8_CUDA_SM70 "Embed the V100 code that scripts/compile_device.py left in build/device" OFF)

set(KV8_HAS_DEVICE_CODE OFF)
if(KV8_CUDA)
  find_program(KV8_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(KV8_NVCC)
    set(KV8_HAS_DEVICE_CODE ON)
  elseif(NOT KV8_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "KV8_CUDA=ON, but there is no nvcc: install a CUDA toolkit, or set KV8_NVCC")
  endif()
endif()
if(KV8_HAS_DEVICE_CODE)
  execute_process(COMMAND ${KV8_NVCC} --list-gpu-code OUTPUT_VARIABLE known_codes)
  set(kv8_known_architectures "")
  foreach(architecture 70 75 80 86 89 90)
    if(known_codes MATCHES "sm_${architecture}")
      list(APPEND kv8_known_architectures ${architecture})
    endif()
  endforeach()
  set(KV8_CUDA_ARCHITECTURES "${kv8_known_architectures}" CACHE STRING "Architectures to compile for")
  message(STATUS "Device code: ${KV8_NVCC} for ${KV8_CUDA_ARCHITECTURES}")
endif()

# kv8_device_code(<target> SOURCES <x.cu>... HEADERS ...): compiles each source to a fatbin with code
# for every architecture and PTX of the newest, and adds a generated source that embeds them.
function(kv8_device_code target)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS" ${ARGN})
  list(GET KV8_CUDA_ARCHITECTURES -1 newest)
  # 177 counts each constant of a template that one of its instances does not use.
  set(flags -std=c++20 --expt-relaxed-constexpr -Werror all-warnings -diag-suppress 177 --threads 0
      -I${CMAKE_SOURCE_DIR}/src)
  foreach(architecture ${KV8_CUDA_ARCHITECTURES})
    if(architecture EQUAL 90)
      set(architecture 90a)  # wgmma; as PTX it would run on no other architecture
    endif()
    list(APPEND flags -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(APPEND flags -gencode arch=compute_${newest},code=compute_${newest})
  set(assembler "")
  set(entries "")
  set(images "")
  foreach(source ${ARG_SOURCES})
    cmake_path(GET source STEM name)
    set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
    add_custom_command(OUTPUT ${fatbin}
      COMMAND ${KV8_NVCC} -fatbin ${flags} -o ${fatbin} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPENDS ${source} ${ARG_HEADERS} VERBATIM)
    set(paths ${fatbin})
    if(KV8_CUDA_SM70)
      list(APPEND paths ${CMAKE_SOURCE_DIR}/build/device/${name}.sm70.cubin
           ${CMAKE_SOURCE_DIR}/build/device/${name}.sm70.ptx)
    endif()
    set(spans "")
    foreach(kind fatbin cubin ptx)
      if(paths)
        list(POP_FRONT paths path)
        list(APPEND images ${path})
        set(symbol kv8_${name}_${kind})
        string(APPEND assembler "KV8_EMBED(${symbol}, \"${path}\")\n")
        string(APPEND spans ", Image(${symbol}, ${symbol}_end)")
      endif()
    endforeach()
    string(APPEND entries "    {\"${name}\"${spans}},\n")
  endforeach()
  set(KV8_EMBED_LINES "${assembler}")
  set(KV8_CODE_ENTRIES "${entries}")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/device_code.cc.in device_code.cc @ONLY)
  # By itself, or the object that it is joined into would keep old images.
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/device_code.cc PROPERTIES
    OBJECT_DEPENDS "${images}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/device_code.cc)
endfunction()
