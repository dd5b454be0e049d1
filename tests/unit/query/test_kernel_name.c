/* Kernels' names as libraries write them, and what a person reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "query/kernel_name.h"

static void is_called(const char *name, const char *wanted)
{
    char text[128];

    assert_true(kernel_short_name(name, text, sizeof(text)));
    assert_string_equal(text, wanted);
}

static void what_carries_a_function_is_called_by_the_function(void **state)
{
    (void)state;
    is_called("void at::native::elementwise_kernel<128, 4, "
              "at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, "
              "c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > "
              ">(at::TensorIteratorBase&)>",
              "MulFunctor (elementwise)");
    is_called("void at::native::elementwise_kernel<128, 4, "
              "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda("
              "at::TensorIteratorBase&)::{lambda()#3}::operator()() const>",
              "direct_copy_kernel_cuda (elementwise)");
    is_called("void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous "
              "namespace)::pow_tensor_scalar_kernel_impl<float, float>(at::"
              "TensorIteratorBase&, float)::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
              "pow_tensor_scalar_kernel_impl (vectorized_elementwise)");
    is_called("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
              "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >",
              "MeanOps (reduce)");
    is_called("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
              "(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::"
              "(anonymous namespace)::FusedAdamMathFunctor<float, 4, true> >",
              "FusedAdamMathFunctor (multi_tensor_apply)");
    is_called("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>("
              "cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)",
              "cutlass_80_simt_sgemm_128x32_8x5_nn_align1 (Kernel2)");
}

static void other_templates_are_called_by_their_own_name(void **state)
{
    (void)state;
    is_called("void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::"
              "(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(int)",
              "CatArrayBatchedCopy");
    is_called("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<"
              "64, 128> >(pytorch_flash::Flash_fwd_params)",
              "flash_fwd_kernel");
    is_called("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
              "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    is_called("mine::scan(float*)", "scan");
}

static void a_mangled_name_is_called_by_its_last_identifier(void **state)
{
    (void)state;
    is_called("_ZN2at6native4nameE", "name");
    is_called("_Z9my_kernelPfi", "my_kernel");
    is_called("_ZL9my_kernelPfi", "my_kernel"); /* static */
    is_called(
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0EEEvPT0_PT_PfS4_",
        "add_rmsnorm_quant_kernel");
    is_called(
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_"
        "cshuffle_v3INS_34GridwiseGemmMultiD_xdl_cshuffle_v3INS_13tensor_layoutE",
        "kernel_grouped_conv_fwd_xdl_cshuffle_v3");
    /* All of ck_tile begin in one, and its first argument says which. */
    is_called(
        "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40Block",
        "FmhaBatchPrefillWithPagedKVCacheKernel");
    is_called("_ZN7ck_tile6kentryILi12345ES2_3fooS1_12Rmsnorm2dFwdINS_27Rmsnorm2d",
              "foo");
    is_called(
        "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_",
        "ImplicitGemmConvolution (Kernel)");
    is_called(
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5",
        "CUDAFunctor_add (vectorized_elementwise)");
    is_called("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleE",
              "GemmUniversal (device)");
}

static void what_is_no_name_of_c_plus_plus_stays_as_it_is(void **state)
{
    static const char *const names[] = {
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
        "triton_poi_fused_add_0",
        "Memcpy HtoD (Pageable -> Device)",
        "Memset (Device)",
        "(other kernels)",
        "_Z",
        "_ZN",
        "_Z9cut",
        "_ZLi5E",
        "_Z99999999999999999999x",
        "_Z3a\x01b",
        "",
        "<",
        "::",
    };
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_false(kernel_short_name(names[i], text, sizeof(text)));
    /* A damaged one has no brackets that close. */
    is_called("void at::native::elementwise_kernel<", "elementwise_kernel");
}

static void a_name_is_cut_where_it_does_not_fit(void **state)
{
    char text[8];

    (void)state;
    assert_true(kernel_short_name("void mine::a_long_name<4>(int)", text, sizeof(text)));
    assert_string_equal(text, "a_long_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_carries_a_function_is_called_by_the_function),
        cmocka_unit_test(other_templates_are_called_by_their_own_name),
        cmocka_unit_test(a_mangled_name_is_called_by_its_last_identifier),
        cmocka_unit_test(what_is_no_name_of_c_plus_plus_stays_as_it_is),
        cmocka_unit_test(a_name_is_cut_where_it_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
