# The GPU module, libfusecalc_gpu.so: built where a CUDA toolkit (12.6 or newer) with the driver
# API's headers, NVRTC and CUPTI is found, otherwise left out. FUSECALC_CUDA_DIR names a folder with
# include/ and lib/ that is taken instead of looking for a toolkit (scripts/cuda.sh makes one).
option(FUSECALC_GPU "Build the GPU module where a CUDA toolkit is found" ON)
set(FUSECALC_CUDA_DIR "" CACHE PATH "Folder with the include and lib of NVRTC and CUPTI")

# The installed folder of the module, relative to that of the executable.
include(GNUInstallDirs)
set(module_folder ${CMAKE_INSTALL_LIBDIR}/fusecalc/cuda)  # no folder that ldconfig should search
file(RELATIVE_PATH module_from_bin /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${module_folder})
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/module.cpp APPEND PROPERTY
  COMPILE_DEFINITIONS FUSECALC_MODULE_FOLDER="${module_from_bin}")

function(fusecalc_find_cuda)
  set(only "")
  if(FUSECALC_CUDA_DIR)
    set(roots ${FUSECALC_CUDA_DIR})
    set(only NO_DEFAULT_PATH)
  else()
    find_package(CUDAToolkit 12.6 QUIET)
    set(roots ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
  endif()
  set(headers include extras/CUPTI/include)
  set(libraries lib lib64 extras/CUPTI/lib64)
  set(missing "")
  foreach(header cuda nvrtc cupti_range_profiler)
    find_path(FUSECALC_${header}_H ${header}.h HINTS ${roots} PATH_SUFFIXES ${headers} ${only})
    mark_as_advanced(FUSECALC_${header}_H)
    if(NOT FUSECALC_${header}_H)
      list(APPEND missing ${header}.h)
    endif()
  endforeach()
  foreach(library nvrtc cupti)
    find_library(FUSECALC_${library}_SO ${library} HINTS ${roots} PATH_SUFFIXES ${libraries} ${only})
    mark_as_advanced(FUSECALC_${library}_SO)
    if(NOT FUSECALC_${library}_SO)
      list(APPEND missing lib${library}.so)
    endif()
  endforeach()
  list(JOIN missing ", " missing)
  if(missing)
    set(missing_cuda "${missing} not found" PARENT_SCOPE)
  endif()
endfunction()

set(missing_cuda "")
if(NOT FUSECALC_GPU)
  set(missing_cuda "FUSECALC_GPU is OFF")
elseif(CMAKE_CROSSCOMPILING AND NOT FUSECALC_CUDA_DIR)
  set(missing_cuda "FUSECALC_CUDA_DIR names no CUDA for ${CMAKE_SYSTEM_PROCESSOR}")
else()
  fusecalc_find_cuda()
endif()
set(FUSECALC_MISSING_CUDA "${missing_cuda}" CACHE INTERNAL "Why the GPU module is left out")
if(missing_cuda)
  message(STATUS "GPU module: left out: ${missing_cuda}")
  return()
endif()

file(GLOB gpu_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cpp)
list(REMOVE_ITEM gpu_sources ${PROJECT_SOURCE_DIR}/src/cuda/module.cpp)

# CUPTI's headers of callbacks and activities include the runtime's types, need none of them, and the
# wheels lack a header that those include.
set(without_runtime_types "")
foreach(types DEVICE DRIVER SURFACE TEXTURE VECTOR)
  list(APPEND without_runtime_types __${types}_TYPES_H__)
endforeach()

# Separate from the module, so that the tests can link the parts that need no GPU.
add_library(fusecalc_gpu_parts STATIC ${gpu_sources})
set_target_properties(fusecalc_gpu_parts PROPERTIES POSITION_INDEPENDENT_CODE ON
                                                    CXX_VISIBILITY_PRESET hidden)
target_include_directories(fusecalc_gpu_parts SYSTEM PUBLIC
  ${FUSECALC_cuda_H} ${FUSECALC_nvrtc_H} ${FUSECALC_cupti_range_profiler_H})
target_compile_definitions(fusecalc_gpu_parts PUBLIC ${without_runtime_types})
target_link_libraries(fusecalc_gpu_parts
  PUBLIC fusecalc_engine ${FUSECALC_nvrtc_SO} ${CMAKE_DL_LIBS} PRIVATE fusecalc_warnings)

# NVRTC opens its built-ins by name; the loader searches only the module's older DT_RPATH for them.
target_link_options(fusecalc_gpu_parts INTERFACE -Wl,--disable-new-dtags)

add_library(fusecalc_gpu MODULE ${PROJECT_SOURCE_DIR}/src/cuda/module.cpp)
add_library(fusecalc_gpu_standalone MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/cuda/module.cpp)
foreach(module fusecalc_gpu fusecalc_gpu_standalone)
  target_link_libraries(${module} PRIVATE fusecalc_gpu_parts fusecalc_warnings)
  set_target_properties(${module} PROPERTIES CXX_VISIBILITY_PRESET hidden)
endforeach()
fusecalc_link_standalone(fusecalc_gpu_standalone fusecalc_gpu)
add_dependencies(fusecalc fusecalc_gpu)
add_dependencies(fusecalc_standalone fusecalc_gpu_standalone)

# CUPTI is opened by name at run time, so its folder goes into the RUNPATH beside NVRTC's.
get_filename_component(nvrtc_folder ${FUSECALC_nvrtc_SO} DIRECTORY)
get_filename_component(cupti_folder ${FUSECALC_cupti_SO} DIRECTORY)
set(cuda_folders ${nvrtc_folder} ${cupti_folder})
list(REMOVE_DUPLICATES cuda_folders)
set(FUSECALC_CUDA_FOLDERS "${cuda_folders}")
set(installed_folders "$ORIGIN;${cuda_folders}")
if(FUSECALC_CUDA_DIR)
  set(installed_folders "$ORIGIN")  # a toolkit folder given to the build is installed with the module
endif()
set_target_properties(fusecalc_gpu fusecalc_gpu_standalone PROPERTIES
  BUILD_RPATH "${cuda_folders}" INSTALL_RPATH "${installed_folders}")
install(TARGETS fusecalc_gpu LIBRARY DESTINATION ${module_folder} COMPONENT dynamic)
install(TARGETS fusecalc_gpu_standalone
  LIBRARY DESTINATION ${module_folder} COMPONENT standalone EXCLUDE_FROM_ALL)
if(FUSECALC_CUDA_DIR)
  # Not the links of plain names, which only linkers need: a wheel holds a second copy in their place.
  file(GLOB runtime ${nvrtc_folder}/libnvrtc.so.* ${nvrtc_folder}/libnvrtc-builtins.so*
       ${cupti_folder}/libcupti.so.* ${cupti_folder}/libnvperf_host.so*
       ${cupti_folder}/libnvperf_target.so*)
  install(FILES ${runtime} DESTINATION ${module_folder})
endif()
# The library that CUDA loads into profiled programs, which bring libraries of their own: it needs
# none but the C library, and shows no symbol but its entry points. An unresolved symbol would make
# CUDA drop it without a word.
file(GLOB inject_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/inject/*.cpp)
set(inject_shared backend/gpu_fault.cpp backend/injection.cpp backend/kernel_name.cpp core/text.cpp
  cuda/counters.cpp cuda/cupti.cpp cuda/dram_metrics.cpp cuda/driver.cpp)
list(TRANSFORM inject_shared PREPEND ${PROJECT_SOURCE_DIR}/src/)
add_library(fusecalc_inject MODULE ${inject_sources} ${inject_shared})
target_include_directories(fusecalc_inject PRIVATE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
target_include_directories(fusecalc_inject SYSTEM PRIVATE
  ${FUSECALC_cuda_H} ${FUSECALC_cupti_range_profiler_H})
target_compile_definitions(fusecalc_inject PRIVATE ${without_runtime_types})
# Only GCC makes the static fmt; clang's builds, with sanitizers, stay here.
target_link_libraries(fusecalc_inject PRIVATE
  $<IF:$<CXX_COMPILER_ID:GNU>,fusecalc_fmt,fmt::fmt> ${CMAKE_DL_LIBS} fusecalc_warnings)
target_link_options(fusecalc_inject PRIVATE
  -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-Bsymbolic
  -Wl,-z,nodelete -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/cuda/inject/exports.map)
fusecalc_bind_to_old_glibc(fusecalc_inject)
# clang links the runtime of its sanitizers into programs only.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR NOT sanitized)
  target_link_options(fusecalc_inject PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(fusecalc_inject PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  BUILD_RPATH "${cuda_folders}" INSTALL_RPATH "${installed_folders}")
add_dependencies(fusecalc fusecalc_inject)
install(TARGETS fusecalc_inject LIBRARY DESTINATION ${module_folder})
message(STATUS "GPU module: NVRTC ${FUSECALC_nvrtc_SO}, CUPTI ${FUSECALC_cupti_SO}")
