/* What kind of work a kernel does, by names that libraries gave on GPUs of each generation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "aggregate/gpu_host.h"
#include "query/kernel_name.h"

static void kernels_are_told_apart_by_their_names(void **state)
{
    (void)state;
    assert_int_equal(kernel_family("volta_sgemm_64x64_nt"), KERNEL_FLOAT32);
    assert_int_equal(kernel_family("volta_scudnn_128x64_relu_small_nn_v1"),
                     KERNEL_FLOAT32);
    assert_int_equal(kernel_family("void cudnn::detail::dgrad_engine<float, 512, 6>"),
                     KERNEL_FLOAT32);
    assert_int_equal(kernel_family("cutlass_80_tensorop_s1688gemm_128x64_32x6"),
                     KERNEL_TF32);
    assert_int_equal(
        kernel_family("cutlass_75_tensorop_s1688gemm_bf16_64x64_tn_align4"),
        KERNEL_OTHER);
    assert_int_equal(kernel_family("cutlass_tensorop_s1688fprop_optimized_f16_256x128_"
                                   "32x2_nhwc_align8"),
                     KERNEL_OTHER);
    assert_int_equal(kernel_family("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n"),
                     KERNEL_TF32);
    assert_int_equal(kernel_family("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"),
                     KERNEL_OTHER);
    assert_int_equal(kernel_family("void at::native::vectorized_elementwise_kernel<4>"),
                     KERNEL_ELEMENTWISE);
    assert_int_equal(kernel_family("void cudnn::ops::nchwToNhwcKernel<float, float>"),
                     KERNEL_LAYOUT);
    assert_int_equal(
        kernel_family("void (anonymous namespace)::softmax_warp_forward<float, "
                      "float, float, 9, false, true>(float*)"),
        KERNEL_SOFTMAX);
    assert_int_equal(
        kernel_family("void (anonymous namespace)::softmax_warp_backward<float, "
                      "float, float, 9, true, false>(float*)"),
        KERNEL_OTHER);
    assert_int_equal(kernel_family("void at::native::(anonymous namespace)::"
                                   "cunn_SoftMaxForward<8, c10::BFloat16, float, "
                                   "c10::BFloat16, at::native::(anonymous namespace)::"
                                   "SoftMaxForwardEpilogue>(int)"),
                     KERNEL_SOFTMAX);
    assert_int_equal(
        kernel_family("void at::native::(anonymous namespace)::"
                      "cunn_SoftMaxBackward<4, float, float, float, at::native"
                      "::(anonymous namespace)::LogSoftMaxBackwardEpilogue>"),
        KERNEL_OTHER);
    assert_int_equal(kernel_family(""), KERNEL_OTHER);
}

static void products_of_amd_say_their_type_behind_their_matrices(void **state)
{
    (void)state;
    assert_int_equal(kernel_family("Cijk_Ailk_Bljk_SB_MT128x64x16_MI16x16x4x1_SN"),
                     KERNEL_FLOAT32);
    assert_int_equal(kernel_family("Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64"),
                     KERNEL_FLOAT32);
    assert_int_equal(kernel_family("Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4x1"),
                     KERNEL_FLOAT64);
    assert_int_equal(kernel_family("Cijk_Ailk_Bljk_HB_MT64x64x16_SB_SN"), KERNEL_OTHER);
    assert_int_equal(kernel_family("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x4x2"),
                     KERNEL_OTHER);
    assert_int_equal(kernel_family("Cijk_Alik_Bljk_BBS_BH_Bias_MT64x96x128_MI16x16x1"),
                     KERNEL_OTHER);
    assert_int_equal(kernel_family("Cijk_Alik_Bljk_BSS_BH_MT64x96x128_MI16x16x1"),
                     KERNEL_OTHER);
    assert_int_equal(kernel_family("Cijk_"), KERNEL_OTHER);
}

static void kernels_that_exchange_are_collectives_whoever_made_them(void **state)
{
    static const char *const names[] = {
        "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "mscclKernel_Sum_half_Simple_false",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
        "void deep_ep::internode_ll::combine<true, 9, 7168>(void*)",
        "void c10d::symmetric_memory::one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>",
        "two_shot_all_reduce_kernel_inplace<float, 16, 8>",
        "void multimem_all_reduce_kernel<c10::BFloat16, 16>",
        "multimem_one_shot_all_reduce_kernel<float, 16>",
        "void multimem_all_gather_kernel<16>(void*, unsigned int**)",
        "userbuffers_fp16_sum_inplace_gpu_rw_ag<8>",
        "kuserbuffers_pushrecv",
        "nvshmemi_transfer_rma_p"};
    static const char *const none[] = {
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<1>>",
        "void at::native::reduce_kernel<512, 1>", "splitKreduce_kernel<32, 16>"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(kernel_family(names[i]), KERNEL_COLLECTIVE);
        assert_true(gpu_name_classify(names[i]) & GPU_NAME_COMMUNICATION);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(kernel_family(none[i]), KERNEL_OTHER);
        assert_false(gpu_name_classify(none[i]) & GPU_NAME_COMMUNICATION);
    }
}

static void products_of_half_precision_beside_tensor_cores_are_no_float32(void **state)
{
    (void)state;
    assert_int_equal(kernel_family("volta_fp16_sgemm_fp16_128x128_nt"),
                     KERNEL_UNALIGNED);
    assert_int_equal(kernel_family("ampere_fp16_sgemm_fp16_64x64_sliced1x2_nn"),
                     KERNEL_UNALIGNED);
    assert_int_equal(kernel_family("turing_fp16_scudnn_fp16_128x64_relu_small_nn_v1"),
                     KERNEL_UNALIGNED);
    /* Pascal has no other cores. */
    assert_int_equal(kernel_family("maxwell_fp16_sgemm_fp16_128x64_nn"), KERNEL_OTHER);
    assert_int_equal(kernel_family("volta_sgemm_128x128_nt"), KERNEL_FLOAT32);
    assert_false(kernel_uses_tensor_cores("volta_fp16_sgemm_fp16_128x128_nt"));
}

static void attention_of_cudnn_is_no_convolution(void **state)
{
    (void)state;
    assert_true(kernel_is_convolution("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_"
                                      "nhwckrsc_nhwc_tilesize128x128"));
    assert_true(kernel_is_convolution("ampere_scudnn_128x64_relu_small_nn_v1"));
    assert_false(kernel_is_convolution("cudnn_generated_fort_native_sdpa_sm90_flash_"
                                       "fprop_wgmma_f16_knob_7_64x128x64"));
    assert_false(kernel_is_convolution(
        "cudnn_generated_fort_native_sdpa_sm80_flash_bprop_dgrad_f16_knob_3"));
    assert_false(kernel_is_convolution("fmha_cutlass_fprop_f16"));
}

#define COUNT(names) (sizeof(names) / sizeof((names)[0]))

static void all_are(const char *const *names, size_t count, bool tensor_cores)
{
    for (size_t i = 0; i < count; i++) {
        if (kernel_uses_tensor_cores(names[i]) != tensor_cores)
            print_error("%s\n", names[i]);
        assert_int_equal(kernel_uses_tensor_cores(names[i]), tensor_cores);
    }
}

static void tensor_cores_of_every_generation_are_known_by_name(void **state)
{
    static const char *const names[] = {
        /* Volta */
        "volta_h884gemm_64x128_ldg8_nn",
        "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        "sm70_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_"
        "tilesize128x128x32_"
        "stage1_warpsize2x2x1_g1_tensor8x8x4_t1r3s3_kernel_cudnn",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm70(PyTorchMemEffAttention::"
        "AttentionKernel)",
        /* Turing */
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "turing_int8_i8816cudnn_int8_128x128_ldg16_relu_interior_nt_v1",
        /* Ampere and Ada */
        "ampere_fp16_s16816gemm_fp16_128x128_ldg8_relu_f2f_stages_32x5_tn",
        "void "
        "cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(...)",
        "void "
        "cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_"
        "tn_"
        "align8>(...)",
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_"
        "tensor16x8x16_execute_kernel__5x_cublas",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_"
        "tilesize128x128x32_"
        "stage4_warpsize2x2x1_g1_tensor16x8x16_execute_kernel__5x_cudnn",
        "cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1",
        "void "
        "pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, "
        "128, "
        "128, 4, false, false, cutlass::half_t>, false, "
        "true>(pytorch_flash::Flash_fwd_params)",
        "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x64_"
        "4x1x1_"
        "kernel0_0",
        /* Hopper */
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_"
        "warpgroupsize1x1x1_"
        "execute_segment_k_off_kernel__5x_cublas",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_tnn_"
        "align8",
        "void "
        "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
        "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
        "MainloopSm90TmaGmmaWarpSpecialized<4>>>>(...)",
        "void "
        "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
        "flash::CollectiveMainloopFwdSm90<2>>>>(...)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_13_"
        "128x128x128",
        /* Blackwell */
        "nvjet_sm100_tst_128x256_64x6_2x2_2cta_h_bz_TNN",
        "cutlass3x_sm100_tensorop_s128x256x16gemm_bf16_bf16_f32_bf16_bf16_128x256x64_0_"
        "tnn_"
        "align8_2sm_bias_bf16_relu",
        "void "
        "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
        "int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
        "MainloopSm100TmaUmmaWarpSpecialized<4, 2, 2>>>>(...)",
        "my_kernel_tcgen05_mma",
        "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_26_128x128x128_"
        "4x1x1",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausal",
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_sm100f",
        "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS_10"
        "tfloat32_tE",
        /* Triton */
        "attn_fwd", "kernel_unified_attention_2d",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        /* AMD */
        "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40Block"
        "FmhaBatchPrefillPipelineQRKSVSAsyncE",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_"
        "cshuffle_v3E",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>(int)",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32_wt32x32x8",
        "Cijk_Alik_Bljk_BBS_BH_Bias_MT64x96x128_MI16x16x1_SN"};

    (void)state;
    all_are(names, COUNT(names), true);
}

static void kernels_on_the_other_cores_are_not_taken_for_tensor_cores(void **state)
{
    static const char *const names[] = {
        "volta_sgemm_128x64_nn",
        "volta_dgemm_128x64_nn",
        "volta_scudnn_128x64_relu_interior_nn_v1",
        "ampere_sgemm_128x64_tn",
        "ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(...)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_"
        "ffma_"
        "aligna4_alignc4_execute_kernel__51_cublas",
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_"
        "stage3_warpsize1x2x1_g1_ffma_t1r3s3_execute_kernel_cudnn",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm50(PyTorchMemEffAttention::"
        "AttentionKernel)",
        "void pytorch_flash::flash_fwd_splitkv_combine_kernel<pytorch_flash::"
        "Flash_fwd_kernel_traits<64, 64, 256, 4>, 4, "
        "1>(pytorch_flash::Flash_fwd_params)",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, pytorch_flash::"
        "Flash_bwd_kernel_traits<64, 128, 128, 8>>(pytorch_flash::Flash_bwd_params)",
        "void pytorch_flash::flash_bwd_convert_dq_kernel<pytorch_flash::"
        "Flash_bwd_kernel_traits<64, 128, 128, 8>>(pytorch_flash::Flash_bwd_params, "
        "int)",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, "
        "cublasGemvTensorStridedBatched<float const>>(...)",
        "void at::native::vectorized_elementwise_kernel<4, "
        "at::native::FillFunctor<c10::Half>, "
        "std::array<char*, 1ul>>(int, at::native::FillFunctor<c10::Half>, "
        "std::array<char*, "
        "1ul>)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
        "(anonymous namespace)::TensorListMetadata<4>>(...)",
        "void at::native::elementwise_kernel<128, 4, "
        "at::native::digamma_kernel_cuda>(...)",
        "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "triton_poi_fused_add_relu_0",
        "SubTensorOpWithCastTensor1d", /* MIOpen's */
        "_ZN7ck_tile6kentryILi2ENS_30FmhaFwdSplitKVCombineKernelINS_36Block"
        "FmhaFwdSplitKVCombinePipelineE",
        "Cijk_Ailk_Bjlk_SB_MT128x64x16_SN_MIAV0"};

    (void)state;
    all_are(names, COUNT(names), false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_told_apart_by_their_names),
        cmocka_unit_test(products_of_half_precision_beside_tensor_cores_are_no_float32),
        cmocka_unit_test(attention_of_cudnn_is_no_convolution),
        cmocka_unit_test(kernels_that_exchange_are_collectives_whoever_made_them),
        cmocka_unit_test(products_of_amd_say_their_type_behind_their_matrices),
        cmocka_unit_test(tensor_cores_of_every_generation_are_known_by_name),
        cmocka_unit_test(kernels_on_the_other_cores_are_not_taken_for_tensor_cores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
